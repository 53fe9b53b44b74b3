#pragma once
// Experts that return the rows they are given: a whole round without the host, for bf16 tokens that lie by expert.
#include <cmath>

#include "tests/support/exchange_rank.hpp"

namespace baton::test {

/// The sum of a token's value over those of its choices that `counts` says.
template <class Counts>
float weighted_sum(const exchange_case& c, const rank_inputs& in, std::size_t value, Counts counts) {
  const auto hidden = static_cast<std::size_t>(c.config.hidden), k = static_cast<std::size_t>(c.config.top_k);
  float sum = 0.0f;
  for (std::size_t j = value / hidden * k; j < (value / hidden + 1) * k; ++j)
    if (counts(in.topk_idx[j])) sum = std::fma(in.topk_weights[j], static_cast<float>(in.tokens[value]), sum);
  return sum;
}

/// What they give: with layout per_rank each rank's weighted sum, rounded if it comes from another, added in the order of ranks;
/// with per_expert the weighted sum of all choices.
inline std::vector<float> identity_output(const exchange_case& c, const rank_inputs& in, int rank) {
  const std::size_t values = in.tokens.size();
  std::vector<float> out(values, 0.0f);
  if (c.config.layout == ep_layout::per_expert) {
    for (std::size_t i = 0; i < values; ++i) out[i] = weighted_sum(c, in, i, [](int id) { return id >= 0; });
  } else {
    for (int r = 0; r < c.ranks; ++r) {
      std::vector<float> part(values);
      for (std::size_t i = 0; i < values; ++i)
        part[i] = weighted_sum(c, in, i, [&](int id) { return rank_of_expert(c, id) == r; });
      if (r != rank) round_as_it_travels(c.config, part);
      for (std::size_t i = 0; i < values; ++i) out[i] += part[i];
    }
  }
  finish_sums(c, in, out);
  return out;
}

/// A round of a rank without the host, all of it enqueued.
inline void enqueue_identity_round(exchange_rank& rank, calls how) {
  if (how == calls::fused) {
    rank.dispatch();
    rank.combine(static_cast<const bfloat16*>(rank.received().tokens));
  } else {
    rank.dispatch_async();
    rank.dispatch_wait();
    rank.combine_async(static_cast<const bfloat16*>(rank.received().tokens));
    rank.combine_wait();
  }
}

}  // namespace baton::test
