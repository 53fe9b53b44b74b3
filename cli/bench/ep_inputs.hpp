#pragma once
// Seeded inputs of one round, what identity experts must give back, and the bytes that move.
#include <cstdint>
#include <span>
#include <vector>

#include "baton/expert_parallel.hpp"

namespace baton::cli {

/// One rank's tokens: values in [-1, 1), top_k distinct experts chosen uniformly, weights that sum to 1.
struct rank_inputs {
  std::vector<bfloat16> tokens;        // [tokens, hidden]
  std::vector<std::int32_t> topk_idx;  // [tokens, top_k]
  std::vector<float> topk_weights;     // [tokens, top_k]
};
rank_inputs random_inputs(const ep_config& config, int num_tokens, std::uint64_t seed);

/// How a combined output differs from what identity experts must give.
///
/// bf16: out = fma(w_k, x, ...), k ascending, bit for bit. blockwise_fp8: with s = max|block| / 448, rounding to e4m3
/// moves x by at most max(|x| 2^-4, s 2^-10), and rounding that to bf16 by at most |x| 2^-8; the weights are
/// positive and sum to 1, so out may be that far from x.
struct comparison {
  std::uint64_t values = 0;
  std::uint64_t wrong = 0;
  double worst_error = 0;  // |out - x|; with bf16 |out - expected|
};
comparison compare_identity(const ep_config& config, const rank_inputs& in, std::span<const float> out);

/// Bytes of one round, from routing alone. A message is payload, scales and source_info; a reply is hidden bf16.
struct traffic {
  int ranks = 0;
  std::uint64_t dispatch_row_bytes = 0;  // payload and scales
  std::uint64_t message_bytes = 0;       // as it crosses a link
  std::uint64_t combine_row_bytes = 0;
  std::vector<std::uint64_t> rows;  // [source, destination]

  std::uint64_t rows_between(int source, int destination) const {
    return rows[static_cast<std::size_t>(source * ranks + destination)];
  }
  /// Rows that the busiest rank sends to other ranks (dispatch) or gets from itself and others.
  std::uint64_t most_rows_out() const;
  std::uint64_t most_rows_received() const;
  /// Replies that the busiest rank sends to other ranks (combine).
  std::uint64_t most_replies_out() const;
};
traffic traffic_of(const ep_config& config, std::span<const rank_inputs> ranks);

}  // namespace baton::cli
