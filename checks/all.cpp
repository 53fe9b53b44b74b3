#include "checks/all.hpp"

namespace baton::checks {

const std::vector<protocol_check>& all_protocol_checks() {
  static const std::vector<protocol_check> all{arrival_check(),
                                               completion_check(),
                                               signed_parts_check(),
                                               gate_check(),
                                               single_counter_check(),
                                               split_counter_check(),
                                               per_reader_flags_check(),
                                               mbarrier_ring_check(),
                                               ring_product_check(),
                                               ring_gemm_check(),
                                               role_pipeline_check(),
                                               staged_pipeline_check(),
                                               gemm_check(),
                                               split_sum_check(),
                                               team_rows_check(),
                                               given_rows_check(),
                                               row_exchange_check(),
                                               pair_attention_512_check(),
                                               pair_attention_256_check(),
                                               exchange_check(),
                                               exchange_groups_check(),
                                               exchange_failure_check(),
                                               exchange_rejoin_check(),
                                               exchange_per_rank_check(),
                                               exchange_chunks_check(),
                                               exchange_chunks_groups_check(),
                                               exchange_chunks_two_levels_check(),
                                               exchange_flags_check(),
                                               late_weights_check(),
                                               membership_check(),
                                               lost_rank_check()};
  return all;
}

}  // namespace baton::checks
