#pragma once
// Experts that return the rows they are given: a whole round without the host, for bf16 tokens that lie by expert.
#include "tests/support/exchange_rank.hpp"

namespace baton::test {

/// Adds a token's values, weighted, for each of its choices that `counts` says: sums of one row.
template <class Counts>
void add_choices(const exchange_case& c, const rank_inputs& in, std::size_t token,
                 const std::vector<float>& values, Counts counts, float* sums) {
  const auto k = static_cast<std::size_t>(c.config.top_k);
  for (std::size_t j = token * k; j < (token + 1) * k; ++j)
    if (counts(in.topk_idx[j]))
      add_weighted_values(in.topk_weights[j], 1.0f, values.data(), sums, values.size());
}

/// Of layout per_rank: what rank r makes of a token, as rank `to` has it.
inline std::vector<float> identity_part(const exchange_case& c, const rank_inputs& in, std::size_t t,
                                        const std::vector<float>& token, int r, int to) {
  std::vector<float> part(token.size(), 0.0f);
  add_choices(
      c, in, t, token, [&](int id) { return rank_of_expert(c, id) == r; }, part.data());
  if (r != to) round_as_it_travels(c.config, part);
  return part;
}

/// What they give: with layout per_rank each rank's weighted sum, rounded if it comes from another, added in the order of ranks,
/// with two levels another group's together, by who has this rank's place there; with per_expert the weighted sum of all choices.
inline std::vector<float> identity_output(const exchange_case& c, const rank_inputs& in, int rank) {
  const auto hidden = static_cast<std::size_t>(c.config.hidden);
  const bool is_forwarded = c.config.levels == ep_levels::two && c.config.p2p_group_size > 0;
  const int group = is_forwarded ? c.config.p2p_group_size : c.ranks;
  std::vector<float> out(in.tokens.size(), 0.0f), token(hidden), part;
  for (std::size_t t = 0; t < static_cast<std::size_t>(in.num_tokens); ++t) {
    float* const sums = out.data() + t * hidden;
    for (std::size_t h = 0; h < hidden; ++h) token[h] = static_cast<float>(in.tokens[t * hidden + h]);
    if (c.config.layout == ep_layout::per_expert) {
      add_choices(
          c, in, t, token, [](int id) { return id >= 0; }, sums);
      continue;
    }
    for (int r = 0; r < c.ranks; ++r) {
      if (r / group != rank / group && r % group != rank % group) continue;
      if (r / group == rank / group) {
        part = identity_part(c, in, t, token, r, rank);
      } else {
        part.assign(hidden, 0.0f);
        for (int i = r / group * group; i < r / group * group + group; ++i) {
          const std::vector<float> of_rank = identity_part(c, in, t, token, i, r);
          for (std::size_t h = 0; h < hidden; ++h) part[h] += of_rank[h];
        }
        round_as_it_travels(c.config, part);
      }
      for (std::size_t h = 0; h < hidden; ++h) sums[h] += part[h];
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
