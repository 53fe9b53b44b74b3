#pragma once
// Units of received tokens, from where they arrive to rows.
#include "kernels/ep/per_rank/plan.hpp"
#include "kernels/ep/per_rank/row_index.hpp"
#include "kernels/ep/per_rank/unit.hpp"
#include "kernels/ep/row_scales.hpp"

namespace baton::ep::per_rank {

/// Until all have arrived that should. False: gave up.
template <class X>
BATON_FN bool await_all(X& x, mbarrier* all, site where) {
  return x.template mbarrier_wait<scope::block>(all, parity::even, {.where = where, .patience = 2});
}

/// A warp's share of the units of a source and of those behind it, dealt as one row: those that are `nth` modulo `warps`. So
/// where sources have few, a warp has a unit of one of them, not one of each.
struct unit_share {
  int source, nth, warps;
  int sources = 1;
};

/// Its first unit, if each source has `units`.
template <class P>
BATON_FN unit_place first_place(const P& p, unit_share mine, int units) {
  for (; !P::is_pair && mine.sources > 1 && mine.nth >= units; --mine.sources) {
    mine.nth -= units;
    if (++mine.source == p.num_ranks()) mine.source = 0;
  }
  return {mine.source, mine.nth};
}

/// What the warp knows of a token's rows: lane k has choice k's, or -1.
template <class X>
struct token_rows {
  typename X::template lanes<std::int32_t> of_choice;
  std::uint32_t here;   // choices that have a row on this rank
  std::uint32_t first;  // those that no earlier choice of the token shares
};

template <class X, class P>
BATON_FN token_rows<X> find_rows(X& x, const row_index<P>& rows, const token_unit& at) {
  token_rows<X> found{};
  x.each_lane(
      [&](int k) { found.of_choice[k] = k < rows.p.s.top_k ? rows.find(x, at.source, at.token, k) : -1; });
  const auto equal = x.equal_lanes(found.of_choice);
  typename X::template lanes<bool> here, first;
  x.each_lane([&](int k) {
    here[k] = found.of_choice[k] >= 0;
    first[k] = here[k] && lowest_bit(equal[k]) == k;
  });
  found.here = x.ballot(here);
  found.first = x.ballot(first);
  return found;
}

/// For combine: where the weights are that the unit has brought, and what else is known of the token.
template <class X, class P>
BATON_FN void note_choices(X& x, const P& p, const token_unit& at, const token_rows<X>& found,
                           const typename X::template lanes<vec16> (&v)[unit_accesses]) {
  const int token = at.source * p.s.max_tokens + at.token, first = at.unit * unit_weights;
  if (at.unit == 0) {
    x.each_lane([&](int k) {
      if (((found.first >> k) & 1) != 0)
        x.write(p.sources + found.of_choice[k], source_info{at.token, k, at.source, 0});
    });
    if (p.token_rows != nullptr)
      x.each_lane([&](int k) {
        if (((found.first >> k) & 1) != 0) x.write(p.token_rows + found.of_choice[k], token);
      });
    x.elect([&] { x.write(p.choices + token, found.here); });
  }
  if (first >= p.s.top_k) return;  // large tokens have more units than weights
  typename X::template lanes<int> from;
  typename X::template lanes<std::uint32_t> weight[unit_accesses];
  x.each_lane([&](int lane) {
    from[lane] = lane % lines_of_access * lanes_of_line + lanes_of_line - 1;
    BATON_UNROLL
    for (int i = 0; i < unit_accesses; ++i) weight[i][lane] = v[i][lane].word[1];
  });
  BATON_UNROLL
  for (int i = 0; i < unit_accesses; ++i) weight[i] = x.shuffle(weight[i], from);
  x.each_lane([&](int lane) {
    const int k = lane - first;
    if (k < 0 || k >= unit_weights || ((found.here >> lane) & 1) == 0) return;
    const std::uint32_t bits = k < lines_of_access ? weight[0][lane] : weight[1][lane];
    x.write(p.entries + static_cast<std::int64_t>(token) * p.s.top_k + nth_entry(found.here, lane),
            entry{found.of_choice[lane], std::bit_cast<float>(bits)});
  });
}

inline constexpr int rows_together = 4;

struct rows_here {
  const int (&at)[rows_together];
  int count;
};

/// One lane: its chunks to some rows. All addresses are known before the first store.
template <class X, class P>
BATON_FN void write_payload(X& x, const P& p, int unit, int lane, const rows_here& rows,
                            const typename X::template lanes<vec16> (&v)[unit_accesses]) {
  constexpr int access_payload = chunks_of_access * static_cast<int>(sizeof(vec16));
  if (holds_flag(lane)) return;
  const int chunk = lane / lanes_of_line * chunks_of_line + lane % lanes_of_line;
  const int in_unit = chunk * static_cast<int>(sizeof(vec16)), offset = unit * P::unit.payload + in_unit;
  std::byte* to[rows_together];
  BATON_UNROLL
  for (int r = 0; r < rows_together; ++r)
    to[r] = p.rows + offset + static_cast<std::int64_t>(rows.at[r]) * p.row_bytes;
  BATON_UNROLL
  for (int i = 0; i < unit_accesses; ++i) {
    if (offset + i * access_payload >= p.payload_bytes()) return;
    if (P::unit.scales_in_data && in_unit + i * access_payload >= P::unit.payload) return;
    BATON_UNROLL
    for (int r = 0; r < rows_together; ++r)
      if (r < rows.count) x.write(reinterpret_cast<vec16*>(to[r] + i * access_payload), v[i][lane]);
  }
}

/// The scales that the unit has brought: lane has word lane % scale_words of them.
template <class P, class X>
BATON_FN typename X::template lanes<std::uint32_t> scales_in_ends(
    X& x, const typename X::template lanes<vec16> (&v)[unit_accesses]) {
  constexpr int words = P::unit.scale_words;
  typename X::template lanes<int> from;
  typename X::template lanes<std::uint32_t> scale[unit_accesses], found;
  x.each_lane([&](int lane) {
    from[lane] = lane % words % lines_of_access * lanes_of_line + lanes_of_line - 1;
    BATON_UNROLL
    for (int i = 0; i < unit_accesses; ++i) scale[i][lane] = v[i][lane].word[0];
  });
  BATON_UNROLL
  for (int i = 0; i < unit_accesses; ++i) scale[i] = x.shuffle(scale[i], from);
  x.each_lane(
      [&](int lane) { found[lane] = lane % words < lines_of_access ? scale[0][lane] : scale[1][lane]; });
  return found;
}
template <class P, class X>
BATON_FN typename X::template lanes<std::uint32_t> scales_in_data(
    X& x, const typename X::template lanes<vec16> (&v)[unit_accesses]) {
  constexpr int words = P::unit.scale_words, last = unit_accesses - 1;
  constexpr int first_chunk = P::unit.payload / static_cast<int>(sizeof(vec16)) - last * chunks_of_access;
  static_assert(first_chunk >= 0 && first_chunk + words / 4 <= chunks_of_access && words % 4 == 0);
  typename X::template lanes<int> from;
  typename X::template lanes<std::uint32_t> word[4], found;
  x.each_lane([&](int lane) {
    const int chunk = first_chunk + lane % words / 4;
    from[lane] = chunk / chunks_of_line * lanes_of_line + chunk % chunks_of_line;
    BATON_UNROLL
    for (int i = 0; i < 4; ++i) word[i][lane] = v[last][lane].word[i];
  });
  BATON_UNROLL
  for (int i = 0; i < 4; ++i) word[i] = x.shuffle(word[i], from);
  x.each_lane([&](int lane) {
    const int nth = lane % words % 4;
    const std::uint32_t low = nth == 0 ? word[0][lane] : word[1][lane],
                        high = nth == 2 ? word[2][lane] : word[3][lane];
    found[lane] = nth < 2 ? low : high;
  });
  return found;
}

template <class P>
BATON_FN row_scales scales_of(const P& p, int row) {
  constexpr format_facts facts = P::facts;
  auto* const scales = reinterpret_cast<std::byte*>(p.scales);
  if (p.s.by_token()) return row_scales::of_token(p.s, scales, row);
  return row_scales::of_row(facts, {p.s.scales_layout(), p.window.max_rows, p.scale_blocks()}, scales, row);
}

/// One lane: a word of a row's scales.
template <class X, class P>
BATON_FN void write_scales(X& x, const P& p, int row, int word, std::uint32_t bits) {
  if constexpr (P::facts.scale_bytes == 4)
    x.write(p.scales + static_cast<std::int64_t>(word) * p.scale_block +
                static_cast<std::int64_t>(row) * p.scale_row,
            std::bit_cast<float>(bits));
  else
    scales_of(p, row).write_word(x, word, bits, p.scale_blocks());
}

/// The unit's payload and scales, to every row of the token, four rows at a time; or to the only one.
template <class X, class P>
BATON_FN void write_rows(X& x, const P& p, const token_unit& at, const token_rows<X>& found,
                         const typename X::template lanes<vec16> (&v)[unit_accesses]) {
  typename X::template lanes<std::uint32_t> scale;
  if constexpr (P::unit.scales_in_data)
    scale = scales_in_data<P>(x, v);
  else if constexpr (P::has_scales)
    scale = scales_in_ends<P>(x, v);
  typename X::template lanes<std::int32_t> to_row = found.of_choice;
  std::uint32_t left = found.first;
  if (p.token_rows != nullptr) {
    x.each_lane([&](int lane) { to_row[lane] = at.source * p.s.max_tokens + at.token; });
    left = 1;
  }
  do {
    int row[rows_together];
    const int here = smaller(rows_together, count_bits(left));
    BATON_UNROLL
    for (int r = 0; r < rows_together; ++r) {
      row[r] = x.broadcast(to_row, left != 0 ? lowest_bit(left) : 0);
      left &= left - 1;
    }
    x.each_lane([&](int lane) { write_payload(x, p, at.unit, lane, {row, here}, v); });
    if constexpr (P::has_scales) {  // as many rows at once as there are lanes for
      constexpr int words = P::unit.scale_words, at_once = smaller(rows_together, warp_lanes / words);
      const auto write_some = [&](int lane, int first) {
        const int nth = first + lane / words, word = at.unit * words + lane % words;
        const int to = nth == 0 ? row[0] : nth == 1 ? row[1] : nth == 2 ? row[2] : row[3];
        const bool is_mine = at_once == rows_together || lane / words < at_once;
        if (is_mine && nth < here && word < p.scale_words()) write_scales(x, p, to, word, scale[lane]);
      };
      x.each_lane([&](int lane) { write_some(lane, 0); });
      if constexpr (at_once < rows_together)
        for (int first = at_once; first < here; first += at_once)
          x.each_lane([&](int lane) { write_some(lane, first); });
    }
  } while (left != 0);
}

/// One warp: a unit, the source's nth, as soon as it is here. False: gave up.
template <class Way, class X, class P>
BATON_FN bool receive_unit(X& x, const P& p, const row_index<P>& rows, std::uint64_t epoch,
                           const unit_share& mine, looked_at<X>& first) {
  const int token = p.window.by_token_units.quotient(mine.nth);
  const token_unit at{mine.source, token, mine.nth - token * p.window.token_units};
  const token_rows<X> found = find_rows(x, rows, at);
  if (found.here == 0) {  // nobody sends it
    if (at.unit == 0) x.elect([&] { x.write(p.choices + at.source * p.s.max_tokens + at.token, 0u); });
    return true;
  }
  if (!Way::await_unit(x, p, epoch, {at.source, mine.nth}, first)) return false;
  note_choices(x, p, at, found, first.v);
  write_rows(x, p, at, found, first.v);
  return true;
}

/// One warp: its share of the units, each as soon as it is here. False: gave up.
template <class Way, class X, class P>
BATON_FN bool receive_all(X& x, const P& p, const row_index<P>& rows, std::uint64_t epoch, unit_share mine,
                          looked_at<X>& first) {
  const int nth = mine.nth;
  for (; mine.sources > 0; --mine.sources) {
    const int tokens = x.from_one([&] { return x.read(rows.counts + mine.source); });
    const int units = tokens * p.window.token_units;
    for (; mine.nth < units; mine.nth += mine.warps) {
      if constexpr (!P::is_pair)
        first.valid = first.valid && mine.source == first.at.rank && mine.nth == first.at.unit;
      if (!receive_unit<Way>(x, p, rows, epoch, mine, first)) return false;
      first.valid = false;
    }
    if constexpr (P::is_pair) first.valid = false;
    mine.nth = P::is_pair ? nth : mine.nth - units;
    if (++mine.source == p.num_ranks()) mine.source = 0;
  }
  return true;
}

}  // namespace baton::ep::per_rank
