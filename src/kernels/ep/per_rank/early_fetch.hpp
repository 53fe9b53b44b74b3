#pragma once
// Tokens and ids that a warp of dispatch loads first, asked for before the kernels before have ended: those of a round may lie in
// memory, and from the L2 they come in half of the time. Nothing is taken from them here, so whoever writes them may still be
// at it.
#include "kernels/ep/per_rank/params.hpp"

namespace baton::ep::per_rank {

/// One warp: a unit of a token, as the caller has it.
template <class Format, class X, class P>
BATON_FN void fetch_unit(X& x, const P& p, int nth) {
  const int token = p.window.by_token_units.quotient(nth);
  if (token >= p.num_tokens) return;
  constexpr int values = P::unit.payload * 8 / P::facts.value_bits;
  const int first = (nth - token * p.window.token_units) * values, end = smaller(p.s.hidden, first + values);
  const auto bytes = [](int n) { return n * Format::source_bits / 8; };
  const std::byte* row =
      static_cast<const std::byte*>(p.tokens) + static_cast<std::int64_t>(token) * bytes(p.s.hidden);
  static_assert(values * Format::source_bits / 8 <= warp_lanes * line_bytes);
  x.each_lane([&](int lane) {
    const int at = bytes(first) + lane * line_bytes;
    if (at < bytes(end)) x.prefetch_line(row + at);
  });
}

/// One warp: the ids of an access.
template <class Way, class X, class P>
BATON_FN void fetch_ids(X& x, const P& p, int access) {
  const int id_size = p.has_wide_ids ? 8 : 4, first = access * Way::ids_of_access * id_size,
            end = smaller(first + Way::ids_of_access * id_size, p.num_tokens * p.s.top_k * id_size);
  static_assert(Way::ids_of_access * 8 <= warp_lanes * line_bytes);
  x.each_lane([&](int lane) {
    const int at = first + lane * line_bytes;
    if (at < end) x.prefetch_line(static_cast<const std::byte*>(p.topk_idx) + at);
  });
}

}  // namespace baton::ep::per_rank
