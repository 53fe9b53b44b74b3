#pragma once
// Who in this group wants which tokens of the ranks that this rank forwards for (two_levels.hpp): noted beside the tile's rows,
// by the warp that counts these, and read by its block, and by combine, like these.
#include "base/bits.hpp"
#include "kernels/ep/per_rank/id_lines.hpp"
#include "kernels/ep/per_rank_chunks/plan.hpp"
#include "kernels/ep/per_rank_chunks/two_levels.hpp"

namespace baton::ep::per_rank_chunks {

template <class X, class Index>
BATON_FN std::uint32_t* wanted_in_room(X& x, const Index& index) {
  const group_index_room plan{index.p.window};
  return index.in(index.room(x, index.warp), plan.wanted);
}

template <class X, class Index>
BATON_FN void clear_wanted(X& x, const Index& index) {
  std::uint32_t* wanted = wanted_in_room(x, index);
  x.each_lane([&](int lane) { x.write(wanted + lane, 0u); });
}

/// The rank of this group that has the expert: its bit; 0: none has.
template <class P>
BATON_FN std::uint32_t near_owner(const P& p, std::uint32_t id) {
  const auto number = static_cast<int>(id);
  for (int r = p.far.near.first; r < p.far.near.end; ++r)
    if (number >= p.first_expert(r) && number < p.first_expert(r + 1)) return 1u << r;
  return 0;
}

/// One warp: a line's ids of the source's nth tile, of which those before `end` count.
template <class X, class Index>
BATON_FN void note_wanted(X& x, const Index& index, int nth_tile, int access, int end,
                          const typename X::template lanes<vec16>& ids) {
  const auto& p = index.p;
  const int first_token = nth_tile * p.window.tile_tokens, begin = first_token * p.s.top_k;
  std::uint32_t* wanted = wanted_in_room(x, index);
  x.each_lane([&](int lane) {
    if (holds_flag(lane)) return;
    const int first = per_rank::first_id_of(access, lane);
    BATON_UNROLL
    for (int i = 0; i < per_rank::ids_of_chunk; ++i) {
      if (first + i < begin || first + i >= end) continue;
      const std::uint32_t owner = near_owner(p, ids[lane].word[i / 2] >> (16 * (i % 2)) & 0xffffu);
      const int row = p.window.by_top_k.quotient(first + i) - first_token;
      if (owner != 0) x.template fetch_or<order::relaxed, scope::block>(wanted + row, owner);
    }
  });
}

/// One warp, whose lanes have met since the last of the tile's ids.
template <class X, class Index>
BATON_FN void keep_wanted(X& x, const Index& index, int source, int nth_tile) {
  const auto& p = index.p;
  const int first = nth_tile * p.window.tile_tokens;
  const std::uint32_t* wanted = wanted_in_room(x, index);
  x.each_lane([&](int lane) {
    if (lane < p.window.tile_tokens && first + lane < p.s.max_tokens)
      x.write(p.groups.wanted + p.forwarded(source, first + lane), x.read(wanted + lane));
  });
}

/// One lane: the ranks of this group that want a token which this rank forwards.
template <class X, class P>
BATON_FN std::uint32_t who_wants(X& x, const P& p, int source, int token) {
  return x.read(p.groups.wanted + p.forwarded(source, token)) & p.far.near_ranks();
}

}  // namespace baton::ep::per_rank_chunks
