#pragma once
// Which row each received token gets, found together: a tile of a source's tokens is noted and counted by one block, which
// tells the others how many rows each expert has there; every block adds up all tiles, and so knows the first rows of its own.
//
//   row(expert, token) = tile_rows[tile, expert] + bits of the tile below the token
//
// Rows of an expert are in order of source rank and token. A token that lists an expert twice has one row there.
//
//   cell               written by                            read by
//   tile_counts        the tile's block, before its word     every block, after it
//   tile_words         the tile's block: store release       every block: wait acquire, device
//   tile_bits, _rows   the tile's block                      the same block, after its mbarrier `known`
//
// T1: a tile's counts happen before any block adds them up. They are overwritten in the next round's dispatch, when this
//     kernel has ended.
// T2: in a block, rows are numbered when all its indexing warps have added up their shares, used when all have numbered.
// Progress: a block notes its own tiles before it waits for others'; all blocks of a grid are on the device together.
#include "base/bits.hpp"
#include "exec/collectives.hpp"
#include "kernels/ep/per_rank/id_lines.hpp"
#include "kernels/ep/per_rank_chunks/plan.hpp"
#include "kernels/ep/per_rank_chunks/wanted_tokens.hpp"
#include "kernels/ep/row_reports.hpp"
#include "protocol/arrival.hpp"

namespace baton::ep::per_rank_chunks {

struct index_sites {
  static consteval site tile() { return "dispatch.tile"; }
  static consteval site summed() { return "dispatch.rows_summed"; }
  static consteval site known() { return "dispatch.rows_known"; }
};

/// A tile: the nth of a source. Tiles are dealt to blocks in the order in which they are sent, and stand in memory in the
/// order of their rows.
struct tile {
  int source, nth;
  BATON_FN int place(const cells& window) const { return source * window.tiles + nth; }
};

BATON_FN int num_tiles(const any_dispatch_params& p) {
  return p.s.num_ranks * p.window.tiles;
}
BATON_FN tile dealt_tile(const shape& s, int nth) {
  const int round = nth / s.num_ranks, source = s.rank + (nth - round * s.num_ranks);
  return {source < s.num_ranks ? source : source - s.num_ranks, round};
}
/// Its number in the deal, the inverse of dealt_tile.
BATON_FN int deal_of(const shape& s, const tile& t) {
  const int turn = t.source - s.rank;
  return t.nth * s.num_ranks + (turn < 0 ? turn + s.num_ranks : turn);
}

/// One lane, when rows are known: that of one of this rank's experts and the tile's nth token.
template <class X>
BATON_FN std::int32_t row_of_expert(X& x, const any_dispatch_params& p, const tile& of, int nth, int local) {
  const std::int64_t slot = static_cast<std::int64_t>(of.place(p.window)) * p.window.expert_slots + local;
  return x.read(p.tile_rows + slot) + count_bits(x.read(p.tile_bits + slot) & ((1u << nth) - 1));
}
/// That of a choice, whose number among all ranks' is `choice`.
template <class X>
BATON_FN std::int32_t row_of_choice(X& x, const any_dispatch_params& p, const tile& of, int nth,
                                    std::int64_t choice) {
  return row_of_expert(x, p, of, nth, x.read(p.choice_experts + choice));
}

/// Four counts of up to 32 in a word.
constexpr std::int32_t count_in(std::uint32_t four, int i) {
  return static_cast<std::int32_t>(four >> (8 * i) & 0xffu);
}

/// What an indexing warp works with.
template <class P = dispatch_params>
struct indexer {
  const P& p;
  const block_plan& shared;
  per_rank::member_round now;
  int warp, warps;  // among the block's indexing warps

  BATON_FN int experts() const { return p.first_expert(p.s.rank + 1) - p.first_expert(p.s.rank); }
  /// The room of the block's nth indexing warp.
  template <class X>
  BATON_FN std::byte* room(X& x, int nth) const {
    return shared.room_of(x, p.roles.senders + nth);
  }
  template <class T>
  static BATON_FN T* in(std::byte* room, const shared_array<T>& array) {
    return reinterpret_cast<T*>(room + array.offset);
  }
  template <class X>
  BATON_FN bool together(X& x, mbarrier* all, site where) const {
    x.sync_warp();
    x.elect([&] { x.mbarrier_arrive(all, 1); });
    return x.template mbarrier_wait<scope::block>(all, parity::even, {.where = where, .patience = 2});
  }
};

/// One lane: those of its eight ids that are of the tile's tokens and this rank's experts.
template <class X, class P>
BATON_FN void note_ids(X& x, const indexer<P>& index, const tile& at, int first, int end, const vec16& ids) {
  const P& p = index.p;
  const index_room plan{p.window};
  std::byte* room = index.room(x, index.warp);
  const int first_token = at.nth * p.window.tile_tokens, begin = first_token * p.s.top_k;
  int token = p.window.by_top_k.quotient(first), k = first - token * p.s.top_k;
  BATON_UNROLL
  for (int i = 0; i < per_rank::ids_of_chunk; ++i) {
    const std::uint32_t id = ids.word[i / 2] >> (16 * (i % 2)) & 0xffffu;
    const std::uint32_t local = id - static_cast<std::uint32_t>(p.first_expert(p.s.rank));
    if (first + i >= begin && first + i < end && local < static_cast<std::uint32_t>(index.experts())) {
      const int row = token - first_token;
      x.template fetch_or<order::relaxed, scope::block>(index.in(room, plan.bits) + local, 1u << row);
      x.template fetch_or<order::relaxed, scope::block>(index.in(room, plan.choices) + row, 1u << k);
      const std::int64_t of_token = static_cast<std::int64_t>(at.source) * p.s.max_tokens + token;
      x.write(p.choice_experts + of_token * p.s.top_k + k, static_cast<std::uint16_t>(local));
    }
    if (++k == p.s.top_k) k = 0, ++token;
  }
}

/// One warp: until a line of ids has been put by a rank beyond the group, if it is; then it is here whole. False: gave up.
template <class X, class P>
BATON_FN bool await_put_ids(X& x, const indexer<P>& index, int source, int access) {
  const P& p = index.p;
  if (p.far.near.has(source)) return true;
  const auto round = static_cast<std::uint32_t>(index.now.epoch);
  typename X::template lanes<std::uint64_t*> words{};
  typename X::template lanes<std::uint64_t> seen;
  x.elect([&] {
    words[0] = reinterpret_cast<std::uint64_t*>(
        p.window_of(p.s.rank) + p.far.cells.id_word_at(p.s, p.window, index.now.epoch, source, access));
  });
  const std::uint64_t arrived = epoch_arrival::word(round, 1);
  return x.template wait<order::acquire, scope::system>(
      words, [arrived](int, std::uint64_t word) { return word == arrived; },
      {.where = per_rank::id_sites::ids(), .peer = source, .epoch = round, .expected = arrived}, seen);
}

/// One warp: the tile's ids, when they are here, into bits. The source's tokens, 0 if it is absent; -1: gave up, or refused them.
template <class X, class P>
BATON_FN int collect_ids(X& x, const indexer<P>& index, const tile& at) {
  const P& p = index.p;
  if (!index.now.has(at.source)) return 0;
  const int begin = at.nth * p.window.tile_tokens * p.s.top_k,
            most = smaller((at.nth + 1) * p.window.tile_tokens, p.s.max_tokens) * p.s.top_k;
  int tokens = 0;
  for (int access = begin / per_rank::ids_of_access; access * per_rank::ids_of_access < most; ++access) {
    if constexpr (P::goes_by_put)
      if (!await_put_ids(x, index, at.source, access)) return -1;
    typename X::template lanes<vec16> v[1];
    const std::byte* from = p.window_of(p.s.rank) + p.window.ids_at(p.s, index.now.epoch, at.source, access);
    if (!await_lines(x, line_places<1>{{from}}, index.now.epoch,
                     {.where = per_rank::id_sites::ids(), .peer = at.source}, v))
      return -1;
    if (!per_rank::sound_ids(x, p, index.now.epoch, at.source, v[0])) return -1;
    tokens = per_rank::tokens_of(x, v[0]);
    const int end = smaller(most, tokens * p.s.top_k);
    x.each_lane([&](int lane) {
      if (!holds_flag(lane)) note_ids(x, index, at, per_rank::first_id_of(access, lane), end, v[0][lane]);
    });
    if constexpr (P::has_two_levels)
      if (forwards_for(p, at.source)) note_wanted(x, index, at.nth, access, end, v[0]);
  }
  return tokens;
}

/// One warp: a tile of its block, of which nobody is told yet. False: gave up.
template <class X, class P>
BATON_FN bool note_tile(X& x, const indexer<P>& index, const tile& at) {
  const any_dispatch_params& p = index.p;
  const index_room plan{p.window};
  std::byte* room = index.room(x, index.warp);
  std::uint32_t *bits = index.in(room, plan.bits), *choices = index.in(room, plan.choices);
  x.each(p.window.expert_slots, [&](int i) { x.write(bits + i, 0u); });
  x.each_lane([&](int lane) { x.write(choices + lane, 0u); });
  if constexpr (P::has_two_levels) clear_wanted(x, index);
  x.sync_warp();
  const int tokens = collect_ids(x, index, at);
  if (tokens < 0) return false;
  x.sync_warp();
  const std::int64_t place = at.place(p.window), slots = place * p.window.expert_slots;
  x.each(p.window.expert_slots / 4, [&](int i) {
    const vec16 four = x.read(reinterpret_cast<const vec16*>(bits) + i);
    std::uint32_t counts = 0;
    for (int e = 0; e < 4; ++e) counts |= static_cast<std::uint32_t>(count_bits(four.word[e])) << (8 * e);
    x.write(reinterpret_cast<vec16*>(p.tile_bits + slots) + i, four);
    x.write(p.tile_counts + slots / 4 + i, counts);
  });
  const int first = at.nth * p.window.tile_tokens;
  x.each_lane([&](int lane) {
    if (lane < p.window.tile_tokens && first + lane < p.s.max_tokens)
      x.write(p.choices + static_cast<std::int64_t>(at.source) * p.s.max_tokens + first + lane,
              x.read(choices + lane));
  });
  if constexpr (P::has_two_levels)
    if (forwards_for(index.p, at.source)) keep_wanted(x, index, at.source, at.nth);
  if (at.nth == 0) x.elect([&] { x.write(p.token_counts + at.source, tokens); });
  x.sync_warp();
  return true;
}

/// One warp: its tiles, and then, with one fence for up to 32 of them, their words. Nobody can use one before it has all.
/// False: gave up, or refused ids.
template <class X, class P>
BATON_FN bool note_tiles(X& x, const indexer<P>& index) {
  const any_dispatch_params& p = index.p;
  const int first = x.block() + index.warp * x.num_blocks(), step = index.warps * x.num_blocks(),
            all = num_tiles(p);
  for (int i = first; i < all; i += step)
    if (!note_tile(x, index, dealt_tile(p.s, i))) return false;
  for (int i = first; i < all; i += step * warp_lanes)
    x.each_lane([&](int lane) {
      if (const int nth = i + lane * step; nth < all)
        x.template store<order::release, scope::device>(p.tile_words + dealt_tile(p.s, nth).place(p.window),
                                                        index.now.epoch);
    });
  return true;
}

/// One warp: until the tiles in [begin, end) have been noted (T1). False: gave up.
template <class X, class P>
BATON_FN bool await_tiles(X& x, const indexer<P>& index, int begin, int end) {
  for (; begin < end; begin += warp_lanes) {
    typename X::template lanes<std::uint64_t*> words;
    typename X::template lanes<std::uint64_t> seen;
    x.each_lane(
        [&](int lane) { words[lane] = begin + lane < end ? index.p.tile_words + begin + lane : nullptr; });
    const std::uint64_t epoch = index.now.epoch;
    if (!x.template wait<order::acquire, scope::device>(
            words, [epoch](int, std::uint64_t word) { return word == epoch; },
            {.where = index_sites::tile(),
             .epoch = static_cast<std::uint32_t>(epoch),
             .expected = epoch,
             .patience = 2},
            seen))
      return false;
  }
  return true;
}

/// A lane's four experts.
struct four_rows {
  std::int32_t at[4];
};

/// One warp: counts of its share of the tiles, some at a time, to `f(place, counts)` for the lane's experts from 4 * i on.
template <class X, class F>
BATON_FN void each_count(X& x, const any_dispatch_params& p, int i, int begin, int end, F f) {
  constexpr int together = 16;
  const int words = p.window.expert_slots / 4;
  for (int first = begin; first < end; first += together) {
    std::uint32_t counts[together];
    BATON_UNROLL
    for (int t = 0; t < together; ++t)
      counts[t] =
          first + t < end ? x.read(p.tile_counts + static_cast<std::int64_t>(first + t) * words + i) : 0;
    BATON_UNROLL
    for (int t = 0; t < together; ++t)
      if (first + t < end) f(first + t, counts[t]);
  }
}

/// Tiles in the order of their places, and which block each is of.
struct tile_walk {
  const any_dispatch_params& p;
  int num_blocks;
  tile at;
  int block;

  BATON_FN tile_walk(const any_dispatch_params& params, int blocks, int place)
      : p{params},
        num_blocks{blocks},
        at{place / params.window.tiles, place % params.window.tiles},
        block{owner()} {}
  BATON_FN void step() {
    if (++at.nth == p.window.tiles) {
      at = {at.source + 1, 0};
      block = owner();
      return;
    }
    block += p.s.num_ranks;  // as in a deal a source's next tile is so much further
    while (block >= num_blocks) block -= num_blocks;
  }

 private:
  BATON_FN int owner() const { return deal_of(p.s, at) % num_blocks; }
};

BATON_FN vec16* rows_of_tile(const any_dispatch_params& p, int place) {
  return reinterpret_cast<vec16*>(p.tile_rows) +
         static_cast<std::int64_t>(place) * (p.window.expert_slots / 4);
}

/// How lanes add up a warp's tiles: one for each four experts, and, where that leaves some over, so many times, of which each
/// has a share of its own.
struct lane_shares {
  int words, of_warp, all;  // lanes of a share; shares of a warp, and of the block
  int begin, each;          // tiles of a share

  template <class P>
  BATON_FN explicit lane_shares(const indexer<P>& index)
      : words{index.p.window.expert_slots / 4},
        of_warp{larger(1, warp_lanes / words)},
        all{of_warp * index.warps},
        begin{index.warp * of_warp},
        each{ceil_div(num_tiles(index.p), all)} {}

  BATON_FN int nth_of(int lane) const { return of_warp == 1 ? 0 : lane / words; }
  BATON_FN int first_tile(const any_dispatch_params& p, int share) const {
    return smaller(num_tiles(p), share * each);
  }
};

/// One warp: rows of each expert in its shares of the tiles, into its room; those before a tile of this block there, too, where
/// the tile's rows will be.
template <class X, class P>
BATON_FN void sum_shares(X& x, const indexer<P>& index, const lane_shares& shares) {
  const any_dispatch_params& p = index.p;
  auto* sums = reinterpret_cast<vec16*>(index.in(index.room(x, index.warp), index_room{p.window}.sums));
  x.each(larger(warp_lanes, shares.words), [&](int nth) {
    const int share = shares.nth_of(nth), i = nth - share * shares.words;
    if (share >= shares.of_warp || i >= shares.words) return;
    const int begin = shares.first_tile(p, shares.begin + share),
              end = shares.first_tile(p, shares.begin + share + 1);
    vec16 sum{};
    tile_walk at{p, x.num_blocks(), begin};
    each_count(x, p, i, begin, end, [&](int place, std::uint32_t counts) {
      if (at.block == x.block()) x.write(rows_of_tile(p, place) + i, sum);
      for (int e = 0; e < 4; ++e) sum.word[e] += static_cast<std::uint32_t>(count_in(counts, e));
      at.step();
    });
    x.write(sums + nth, sum);
  });
}

/// Block 0 tells the caller.
template <class X, class P>
BATON_FN void publish_expert(X& x, const P& p, int local, int row, int rows) {
  x.write(p.row_offsets + local, row);
  x.write(p.row_counts + local, rows);
  x.write(p.expert_ids + local, p.first_expert(p.s.rank) + local);
  report_rows(x, p.reports, local, rows);
}

/// One lane: what comes before its share is added to rows before tiles of this block, of four experts from 4 * i on.
template <class X, class P>
BATON_FN void number_tiles(X& x, const indexer<P>& index, int i, int begin, int end, const vec16& before) {
  const any_dispatch_params& p = index.p;
  constexpr int together = 4;
  for (int first = x.block(); first < num_tiles(p); first += together * x.num_blocks()) {
    vec16* at[together];
    vec16 first_rows[together];
    BATON_UNROLL
    for (int t = 0; t < together; ++t) {
      const int nth = first + t * x.num_blocks(),
                place = nth < num_tiles(p) ? dealt_tile(p.s, nth).place(p.window) : end;
      at[t] = place >= begin && place < end ? rows_of_tile(p, place) + i : nullptr;
      if (at[t] != nullptr) first_rows[t] = x.read(at[t]);
    }
    BATON_UNROLL
    for (int t = 0; t < together; ++t) {
      if (at[t] == nullptr) continue;
      for (int e = 0; e < 4; ++e) first_rows[t].word[e] += before.word[e];
      x.write(at[t], first_rows[t]);
    }
  }
}

/// One warp: first rows of all experts, 128 of them at a time, and from them those of the block's tiles in its shares.
template <class X, class P>
BATON_FN void number_shares(X& x, const indexer<P>& index, const lane_shares& shares) {
  const any_dispatch_params& p = index.p;
  const index_room plan{p.window};
  const int experts = index.experts();
  int behind = 0;  // the row behind the experts so far
  for (int group = 0; group < shares.words; group += warp_lanes) {
    typename X::template lanes<four_rows> rows, before;
    typename X::template lanes<int> last, of_words;
    x.each_lane([&](int lane) {
      rows[lane] = before[lane] = {};
      last[lane] = 0;
      const int share = shares.nth_of(lane), i = group + lane - share * shares.words;
      of_words[lane] = lane - share * shares.words;
      if (share >= shares.of_warp || i >= shares.words) return;
      for (int w = 0; w < index.warps; ++w)
        for (int nth = 0; nth < shares.of_warp; ++nth) {
          const auto* sums = reinterpret_cast<const vec16*>(index.in(index.room(x, w), plan.sums));
          const vec16 sum = x.read(sums + nth * shares.words + i);
          const bool is_before = w < index.warp || (w == index.warp && nth < share);
          for (int e = 0; e < 4; ++e) {
            rows[lane].at[e] += static_cast<std::int32_t>(sum.word[e]);
            if (is_before) before[lane].at[e] += static_cast<std::int32_t>(sum.word[e]);
          }
        }
      if (share > 0) return;
      for (int e = 0; e < 4; ++e) last[lane] += 4 * i + e < experts ? p.window.taken.by(rows[lane].at[e]) : 0;
    });
    auto first = last;
    inclusive_scan(x, last);
    x.each_lane([&](int lane) { first[lane] = last[lane] - first[lane]; });
    const auto before_words = x.shuffle(first, of_words);
    x.each_lane([&](int lane) {
      const int share = shares.nth_of(lane), i = group + lane - share * shares.words;
      if (share >= shares.of_warp || i >= shares.words) return;
      int row = behind + before_words[lane];
      vec16 next;
      for (int e = 0; e < 4; ++e) {
        const int here = rows[lane].at[e];
        if (x.block() == 0 && index.warp == 0 && share == 0 && 4 * i + e < experts)
          publish_expert(x, index.p, 4 * i + e, row, here);
        next.word[e] = static_cast<std::uint32_t>(row + before[lane].at[e]);
        row += p.window.taken.by(here);
      }
      number_tiles(x, index, i, shares.first_tile(p, shares.begin + share),
                   shares.first_tile(p, shares.begin + share + 1), next);
    });
    behind += x.broadcast(last, warp_lanes - 1);
  }
  if (x.block() != 0 || index.warp != 0) return;
  x.elect([&] {
    x.write(p.row_offsets + experts, behind);
    tell_host(x, p.reports, experts, behind);
    x.write(&p.epochs->dispatched, index.now.epoch);
  });
}

/// The block's indexing warps: its tiles, then all tiles' rows (T2). False: gave up, or refused ids.
template <class X, class P>
BATON_FN bool find_rows(X& x, const indexer<P>& index) {
  const any_dispatch_params& p = index.p;
  if (!note_tiles(x, index)) return false;
  const lane_shares shares{index};
  if (!await_tiles(x, index, shares.first_tile(p, shares.begin),
                   shares.first_tile(p, shares.begin + shares.of_warp)))
    return false;
  x.sync_warp();
  sum_shares(x, index, shares);
  if (!index.together(x, index.shared.summed(x), index_sites::summed())) return false;
  number_shares(x, index, shares);
  x.sync_warp();
  x.elect([&] { x.mbarrier_arrive(index.shared.known(x), 1); });
  return true;
}

}  // namespace baton::ep::per_rank_chunks
