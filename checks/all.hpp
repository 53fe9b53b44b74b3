#pragma once
// The protocols, one function and one file each.
#include "checks/protocol_check.hpp"

namespace baton::checks {

protocol_check arrival_check();
protocol_check completion_check();
protocol_check signed_parts_check();
protocol_check gate_check();
protocol_check single_counter_check();
protocol_check split_counter_check();
protocol_check per_reader_flags_check();
protocol_check mbarrier_ring_check();
protocol_check ring_product_check();
protocol_check ring_gemm_check();
protocol_check gemm_check();
protocol_check role_pipeline_check();
protocol_check staged_pipeline_check();
protocol_check split_sum_check();
protocol_check team_rows_check();
protocol_check given_rows_check();
protocol_check row_exchange_check();
protocol_check pair_attention_512_check();
protocol_check pair_attention_256_check();
protocol_check exchange_check();          // nobody gives up
protocol_check exchange_groups_check();   // ranks beyond the p2p group
protocol_check exchange_failure_check();  // ranks give up, are late, or die
protocol_check exchange_per_rank_check();
protocol_check exchange_chunks_check();
protocol_check exchange_chunks_groups_check();  // ranks beyond the p2p group
protocol_check exchange_chunks_two_levels_check();
protocol_check exchange_flags_check();
protocol_check late_weights_check();  // layout per_rank
protocol_check membership_check();
protocol_check lost_rank_check();
protocol_check exchange_rejoin_check();  // a new communicator after that

}  // namespace baton::checks
