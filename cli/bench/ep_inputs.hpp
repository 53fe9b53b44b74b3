#pragma once
// Seeded inputs of one round, and what identity experts must give back.
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "baton/expert_parallel.hpp"
#include "cli/bench/ep_routing.hpp"

namespace baton::cli {

/// One rank's tokens: values in [-1, 1), top_k distinct experts, chosen uniformly unless `route` says, weights that sum to 1.
struct rank_inputs {
  std::vector<bfloat16> tokens;         // [tokens, hidden]
  std::vector<std::int32_t> topk_idx;   // [tokens, top_k]
  std::vector<float> topk_weights;      // [tokens, top_k]
  std::vector<bfloat16> shared_output;  // [tokens, hidden], or empty
};
rank_inputs random_inputs(const ep_config& config, int num_tokens, std::uint64_t seed,
                          const token_router& route);
rank_inputs random_inputs(const ep_config& config, int num_tokens, std::uint64_t seed);
/// Values as tokens have them.
std::vector<bfloat16> random_rows(const ep_config& config, int num_tokens, std::uint64_t seed);

/// How a combined output differs from what identity experts must give. Ids of `in` are physical experts: the communicator's.
///
/// bf16, bit for bit: out = fma(w_k, x, ...), k ascending; with layout per_rank that over the k of each rank, rounded to
/// bf16 unless the rank is the token's own, and added up, ranks ascending. With two levels, here of bf16 alone, another group's
/// are one of these, at its forwarder's place: added up there and rounded to bf16.
/// Formats with scales: storing moves x by at most format_error, and rounding that to bf16 by at most 2^-8 of it; the weights are
/// positive and sum to 1, so out may be that far from x. Layout per_rank: and by 2^-8 of what is left, for the partial sums; the
/// same for what is expected.
/// With combine_format blockwise_fp8: and by what that moves other ranks' sums.
/// With a shared_output: that is added to what is expected, in fp32; where no bits are compared both sums may be rounded.
struct comparison {
  std::uint64_t values = 0;
  std::uint64_t wrong = 0;
  double worst_error = 0;  // |out - x|; with bf16 |out - expected|
  /// Once it is NaN it stays so.
  void see(double error) {
    if (!std::isnan(worst_error) && !(error <= worst_error)) worst_error = error;
  }
  void add(const comparison& other) {
    values += other.values;
    wrong += other.wrong;
    see(other.worst_error);
  }
};
/// The ranks of an exchange, and the one that brought the inputs.
struct rank_of_ranks {
  int rank, num_ranks;
};
comparison compare_identity(const ep_config& config, rank_of_ranks of, const rank_inputs& in,
                            std::span<const float> out);

}  // namespace baton::cli
