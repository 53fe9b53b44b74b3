#pragma once
// Units of received tokens, from lines to rows.
#include "kernels/ep/per_rank/plan.hpp"
#include "kernels/ep/per_rank/row_index.hpp"

namespace baton::ep::per_rank {

struct index_sites {
  static consteval site noted() { return "dispatch.ids_noted"; }
  static consteval site summed() { return "dispatch.rows_summed"; }
  static consteval site known() { return "dispatch.rows_known"; }
  static consteval site line() { return "dispatch.line"; }
};

/// A warp's share of a source's units: those that are `nth` modulo `warps`.
struct unit_share {
  int source, nth, warps;
  int sources = 1;  // those behind it too
};

/// A unit of a token of `source`.
struct token_unit {
  int source, token, unit;
};

/// What the warp knows of a token's rows: lane k has choice k's, or -1.
template <class X>
struct token_rows {
  typename X::template lanes<std::int32_t> of_choice;
  std::uint32_t here;   // choices that have a row on this rank
  std::uint32_t first;  // those that no earlier choice of the token shares
};

template <class X>
BATON_FN token_rows<X> find_rows(X& x, const row_index& rows, int source, int token) {
  token_rows<X> found{};
  x.each_lane([&](int k) { found.of_choice[k] = k < rows.s.top_k ? rows.find(x, source, token, k) : -1; });
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
template <class X>
BATON_FN void note_choices(X& x, const dispatch_params& p, const row_index& rows, const token_unit& at,
                           const token_rows<X>& found,
                           const typename X::template lanes<vec16> (&v)[unit_accesses]) {
  const int token = at.source * p.s.max_tokens + at.token;
  x.each_lane([&](int lane) {
    if (at.unit == 0 && ((found.first >> lane) & 1) != 0)
      x.write(p.sources + found.of_choice[lane], source_info{at.token, lane, at.source, 0});
    if (!holds_flag(lane)) return;
    BATON_UNROLL
    for (int i = 0; i < unit_accesses; ++i) {
      const int k = at.unit * unit_weights + i * lines_of_access + lane / lanes_of_line;
      if (k >= p.s.top_k || ((found.here >> k) & 1) == 0)
        continue;  // large tokens have more units than weights
      const float weight = std::bit_cast<float>(v[i][lane].word[1]);
      x.write(p.entries + static_cast<std::int64_t>(token) * p.s.top_k + k,
              entry{rows.find(x, at.source, at.token, k), weight});
    }
  });
}

/// The unit's payload and scales, to every row of the token, four rows at a time.
template <class X>
BATON_FN void write_rows(X& x, const dispatch_params& p, const token_unit& at, const token_rows<X>& found,
                         const typename X::template lanes<vec16> (&v)[unit_accesses]) {
  constexpr int together = 4;
  const int bytes = p.s.payload_bytes(), blocks = p.s.scale_bytes() / 4, max_rows = p.window.max_rows;
  std::uint32_t left = found.first;
  do {
    int row[together];
    bool on[together];
    BATON_UNROLL
    for (int r = 0; r < together; ++r) {
      on[r] = left != 0;
      row[r] = x.broadcast(found.of_choice, on[r] ? lowest_bit(left) : 0);
      left &= left - 1;
    }
    x.each_lane([&](int lane) {
      const int line = lane / lanes_of_line, chunk = line * chunks_of_line + lane % lanes_of_line;
      const int offset = at.unit * unit_payload + chunk * static_cast<int>(sizeof(vec16));
      const int block = at.unit * (unit_payload / 128) + line;
      BATON_UNROLL
      for (int i = 0; i < unit_accesses; ++i) {
        const int here = offset + i * chunks_of_access * static_cast<int>(sizeof(vec16));
        const bool has_payload = !holds_flag(lane) && here < bytes;
        const int scale = block + i * lines_of_access;
        const bool has_scale =
            holds_flag(lane) && scale < blocks && i * lines_of_access + line < unit_payload / 128;
        BATON_UNROLL
        for (int r = 0; r < together; ++r) {
          if (on[r] && has_payload)
            x.write(reinterpret_cast<vec16*>(p.rows + here + static_cast<std::int64_t>(row[r]) * bytes),
                    v[i][lane]);
          if (on[r] && has_scale)
            x.write(p.scales + static_cast<std::int64_t>(scale) * max_rows + row[r],
                    std::bit_cast<float>(v[i][lane].word[0]));
        }
      }
    });
  } while (left != 0);
}

/// A unit's lines, and whether somebody has looked at them.
template <class X>
struct looked_at {
  typename X::template lanes<vec16> v[unit_accesses];
  bool valid;
};

BATON_FN line_places<unit_accesses> lines_of_unit(const dispatch_params& p, std::uint64_t epoch, int source,
                                                  int unit) {
  const std::byte* first = p.windows.at[p.s.rank] + p.window.token_at(p.s, epoch, source, unit);
  return {{first, first + line_access_bytes}};
}

/// One look at a warp's first unit: whether its lines will come at all is known only when rows are.
template <class X>
BATON_FN void look(X& x, const dispatch_params& p, std::uint64_t epoch, const unit_share& mine,
                   looked_at<X>& first) {
  first.valid = mine.nth < p.s.max_tokens * p.window.token_units;
  if (!first.valid) return;
  const auto from = lines_of_unit(p, epoch, mine.source, mine.nth);
  BATON_UNROLL
  for (int i = 0; i < unit_accesses; ++i) first.v[i] = x.load_lines(from.at[i]);
}

/// One warp: its share of the units of ranks from mine.source on, each as soon as it is here.
template <class X>
BATON_FN void receive_all(X& x, const dispatch_params& p, const row_index& rows, std::uint64_t epoch,
                          unit_share mine, looked_at<X>& first) {
  const std::uint64_t flag = line_flag(epoch);
  for (; mine.sources > 0; --mine.sources) {
    const int units = x.from_one([&] { return x.read(rows.counts + mine.source); }) * p.window.token_units;
    for (int i = mine.nth; i < units; i += mine.warps) {
      const int token = p.window.by_token_units.quotient(i);
      const token_unit at{mine.source, token, i - token * p.window.token_units};
      const token_rows<X> found = find_rows(x, rows, at.source, at.token);
      if (at.unit == 0)
        x.elect([&] { x.write(p.choices + at.source * p.s.max_tokens + at.token, found.here); });
      if (found.here != 0) {  // otherwise nobody sends it
        const bool here = first.valid && all_carry(x, first.v[0], flag) && all_carry(x, first.v[1], flag);
        if (!here && !await_lines(x, lines_of_unit(p, epoch, at.source, i), epoch,
                                  {.where = index_sites::line(), .peer = at.source}, first.v))
          return;
        note_choices(x, p, rows, at, found, first.v);
        write_rows(x, p, at, found, first.v);
      }
      first.valid = false;
    }
    first.valid = false;
    if (++mine.source == p.s.num_ranks) mine.source = 0;
  }
}

}  // namespace baton::ep::per_rank
