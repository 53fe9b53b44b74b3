#pragma once
// combine, layout per_rank: on every rank d, for every token t of rank s that has choices here,
//   partial(s, t, :) = sum over these k, ascending, of weight(s, t, k) * expert_output[row(s, t, k), :]       in fp32
// goes to s as one row of bf16, or of e4m3 with scales (this rank's own stay fp32); and there, ranks ascending:
//   out[t, :] = sum over d of partial_d(t, :)                                                                 in fp32
// and last the token's row of shared experts, if there are some.
//
//   role      warps       does
//   send      senders     sums a unit of 240 columns, or 384, of another rank's token; stores its lines there
//   receive   the others  sums the same of a token of this rank, waits for the other ranks' lines, adds, writes
//
//   send      | sum, store lines ............ |
//   receive   | sum own | wait lines, add, write ... |
//
// Apart, combine_async sends, this rank's own sums to its own memory, and combine_wait receives.
#include "base/bits.hpp"
#include "base/settled.hpp"
#include "exec/kernel.hpp"
#include "kernels/ep/per_rank/by_lines.hpp"
#include "kernels/ep/per_rank/round_start.hpp"
#include "kernels/ep/per_rank/sum_format.hpp"

namespace baton::ep::per_rank {

struct combine_sites {
  static consteval site row() { return "combine.damaged_row"; }
  static consteval site count() { return "combine.damaged_count"; }
};

template <class Output, int KnownRanks = 0, class Way = by_lines, token_format Sums = token_format::bf16,
          int MaxWarps = combine_warps_of(KnownRanks)>
struct combine_kernel {
  using params = sized<combine_params<Output, typename Way::cells>, KnownRanks, Sums>;
  static constexpr kernel_bounds bounds{.max_threads = MaxWarps * warp_lanes};

  template <line_exec_context X>
  static BATON_FN void run(X& x, const params& p) {
    x.launch_dependents();
    x.fetch_params(p);
    const sent_shares all{x, p};
    x.await_dependencies();
    const auto start = begin_round(x, &p.epochs->dispatched);
    if (x.warp() < p.senders) {
      all.each(x, p, [&](const share& mine) { return send_sums(x, p, start, mine); });
    } else if (p.receives) {
      const int nth = (x.warp() - p.senders) * x.num_blocks() + x.block();
      receive(x, p, start, {p.s.rank, nth, (x.num_warps() - p.senders) * x.num_blocks()});
    }
  }

 private:
  struct share {
    int source, nth, warps;
  };
  /// A sender's shares of the other's units, and, where it does not receive, of this rank's.
  struct shares_of_pair {
    template <class X>
    BATON_FN shares_of_pair(const X&, const params&) {}
    template <class X, class F>
    BATON_FN void each(const X& x, const params& p, F f) const {
      const int nth = x.warp() * x.num_blocks() + x.block(), warps = p.senders * x.num_blocks();
      for (int i = 1, to = p.s.rank; i <= (p.receives ? 1 : 2); ++i) {
        if (++to == 2) to = 0;
        if (!f(share{to, nth, warps})) return;
      }
    }
  };
  /// The same among more ranks. Each rank's units are dealt on from where those of the one before would end if ranks had as many
  /// tokens as this one: where they have few, a warp has a unit of one of them. It begins with that of which it has the first.
  /// Without branches on what a warp has, behind which the compiler would take it for parted.
  struct dealt_shares {
    int nth, warps, count, step, first = 0, nth_of_first;
    template <class X>
    BATON_FN dealt_shares(const X& x, const params& p)
        : nth{x.warp() * x.num_blocks() + x.block()},
          warps{p.senders * x.num_blocks()},
          count{p.receives ? p.num_ranks() - 1 : p.num_ranks()},
          nth_of_first{nth} {
      const int units = p.num_tokens * p.window.sum_units;
      step = units < warps ? units : warps > 0 ? units % warps : 0;
      for (int other = 1, at = nth; other < count; ++other) {
        at = behind(at);
        first = at < nth_of_first ? other : first;
        nth_of_first = smaller(at, nth_of_first);
      }
    }
    /// The warp's number among the units of the rank behind that of which it has the `at`-th.
    BATON_FN int behind(int at) const { return at < step ? at - step + warps : at - step; }
    template <class X, class F>
    BATON_FN void each(const X&, const params& p, F f) const {
      for (int i = 0, other = first, at = nth_of_first; i < count; ++i) {
        const int to = p.s.rank + 1 + other;
        if (!f(share{to < p.num_ranks() ? to : to - p.num_ranks(), at, warps})) return;
        const bool is_last = ++other == count;
        at = is_last ? nth : behind(at);
        other = is_last ? 0 : other;
      }
    }
  };
  using sent_shares = std::conditional_t<params::is_pair, shares_of_pair, dealt_shares>;
  using sums = sum_format<Sums>;
  using lane_columns = lane_columns_in<Sums>;
  /// Whether two lanes have half of the same columns each.
  static constexpr bool halves = Sums == token_format::bf16;
  static constexpr int row_vectors = sums::columns * 2 / static_cast<int>(sizeof(vec16));
  template <class X>
  using lane_sums = typename sums::template lane_sums<X>;
  /// A lane's columns of a row of bf16.
  struct row_part {
    vec16 at[row_vectors];
  };
  template <class X>
  static BATON_FN row_part read_part(X& x, const vec16* from) {
    row_part part;
    BATON_UNROLL
    for (int v = 0; v < row_vectors; ++v) part.at[v] = x.read(from + v);
    return part;
  }
  /// The last ones where a lane has none.
  static BATON_FN int column_of(const params& p, int unit, int lane) {
    return smaller(lane_columns{unit, lane}.first, p.s.hidden - sums::columns);
  }

  /// What dispatch left of a token's choices on this rank: lane k has choice k's.
  template <class X>
  struct token_choices {
    std::uint32_t set;
    typename X::template lanes<entry> of_choice;
  };

  /// The entries of choices that are not here are of other rounds, and harmless: loads do not wait for each other.
  template <class X>
  static BATON_FN token_choices<X> read_choices(X& x, const params& p, int source, int token) {
    const std::int64_t of_token = static_cast<std::int64_t>(source) * p.s.max_tokens + token;
    token_choices<X> found{};
    typename X::template lanes<std::uint32_t> set;
    x.each_lane([&](int k) {
      found.of_choice[k] = k < p.s.top_k ? x.read(p.entries + of_token * p.s.top_k + k) : entry{0, 0.0f};
      set[k] = x.read(p.choices + of_token);
    });
    found.set = x.broadcast(set, 0);
    return found;
  }

  /// False: the rank has given up, or what it knows of the source cannot be.
  template <class X>
  static BATON_FN bool send_sums(X& x, const params& p, const typename X::template lanes<round_start>& start,
                                 const share& mine) {
    const int most = p.s.max_tokens * p.window.sum_units;
    int tokens = -1;
    for (int i = mine.nth; i < most; i += mine.warps) {
      const int token = p.window.by_sum_units.quotient(i), unit = i - token * p.window.sum_units;
      typename X::template lanes<std::int32_t> count{};
      if (tokens < 0) x.elect([&] { count[0] = x.read(p.token_counts + mine.source); });
      const token_choices<X> here =
          read_choices(x, p, mine.source, token);  // on the way together with the count
      const round_start now = x.broadcast(start, 0);
      if (now.aborted()) return false;
      if (tokens < 0) tokens = x.broadcast(count, 0);
      if (tokens < 0 || tokens > p.s.max_tokens) {
        refuse(x,
               {.where = combine_sites::count(),
                .peer = mine.source,
                .epoch = static_cast<std::uint32_t>(now.epoch()),
                .expected = static_cast<std::uint64_t>(p.s.max_tokens)},
               static_cast<std::uint32_t>(tokens));
        return false;
      }
      if (token >= tokens) break;
      if (here.set == 0) continue;
      lane_sums<X> sum;
      if (!sum_here(x, p, {mine.source, token, unit}, here, sum)) return false;
      if (mine.source == p.s.rank)
        keep(x, p, token, unit, sum);
      else
        Way::send_sum(x, p, now.epoch(), {mine.source, i}, sums::lines_of(x, sum, unit, now.epoch()));
    }
    return true;
  }

  struct sum_unit {
    int source, token, unit;
  };

  /// The weighted sum of a token's rows on this rank. False: a row that cannot be. That is looked at when the first rows are on
  /// their way: until then the last row stands for any that there is not.
  template <class X>
  static BATON_FN bool sum_here(X& x, const params& p, const sum_unit& at, const token_choices<X>& here,
                                lane_sums<X>& sum) {
    row_vectors_of<X> from;
    typename X::template lanes<bool> sound;
    x.each_lane([&](int k) {
      const auto row = static_cast<std::uint32_t>(here.of_choice[k].row);
      from.row[k] = smaller(row, static_cast<std::uint32_t>(p.window.max_rows - 1));
      from.first[k] = static_cast<std::uint32_t>(column_of(p, at.unit, k)) / columns_of_vector;
      sound[k] = ((here.set >> k) & 1) == 0 || from.row[k] == row;
      settle(from.row[k]);
      settle(from.first[k]);
      for (float& v : sum[k].at) v = 0.0f;
    });
    bool is_checked = false;
    for (std::uint32_t left = here.set; left != 0;) {
      const std::uint32_t now = left;
      some_rows<X> values;
      load_rows(x, p, from, left, values);
      if (!is_checked && !are_sound(x, p, at, here, sound)) return false;
      is_checked = true;
      add_rows(x, here.of_choice, now, values, sum);
    }
    return true;
  }

  template <class X>
  static BATON_FN bool are_sound(X& x, const params& p, const sum_unit& at, const token_choices<X>& here,
                                 const typename X::template lanes<bool>& sound) {
    const std::uint32_t all = x.ballot(sound);
    if (all == 0xffffffffu) return true;
    refuse(x,
           {.where = combine_sites::row(),
            .peer = at.source,
            .expected = static_cast<std::uint64_t>(p.window.max_rows)},
           static_cast<std::uint32_t>(x.broadcast(here.of_choice, lowest_bit(~all)).row));
    return false;
  }

  static constexpr int together = 4;
  static constexpr std::uint32_t columns_of_vector = sizeof(vec16) / sizeof(bfloat16);
  template <class X>
  struct some_rows {
    typename X::template lanes<row_part> at[together];
  };
  /// Lane k: the row of choice k; and the first of the lane's columns, in vec16s.
  template <class X>
  struct row_vectors_of {
    typename X::template lanes<std::uint32_t> row, first;
  };

  /// The lowest of `left`, up to four, which it takes away: their loads are in flight together. One code for any number:
  /// rows that there are not count nothing. Lines serve so few tokens that vec16s can be counted in 32 bits.
  template <class X>
  static BATON_FN void load_rows(X& x, const params& p, const row_vectors_of<X>& from, std::uint32_t& left,
                                 some_rows<X>& values) {
    const auto* base = reinterpret_cast<const vec16*>(p.expert_output);
    const std::uint32_t vectors = static_cast<std::uint32_t>(p.s.hidden) / columns_of_vector;
    BATON_UNROLL
    for (int i = 0; i < together; ++i, left &= left - 1) {
      const std::uint32_t row = x.broadcast(from.row, left != 0 ? lowest_bit(left) : 0);
      x.each_lane([&](int lane) {
        values.at[i][lane] = {};
        if (left != 0) values.at[i][lane] = read_part(x, base + (row * vectors + from.first[lane]));
      });
    }
  }
  template <class X>
  static BATON_FN void add_rows(X& x, const typename X::template lanes<entry>& entries, std::uint32_t left,
                                const some_rows<X>& values, lane_sums<X>& sum) {
    BATON_UNROLL
    for (int i = 0; i < together; ++i, left &= left - 1) {
      const float weight = left != 0 ? x.broadcast(entries, lowest_bit(left)).weight : 0.0f;
      x.each_lane([&](int lane) {
        BATON_UNROLL
        for (int v = 0; v < row_vectors; ++v)
          add_weighted(eight_of(sum[lane].at, v), weight, values.at[i][lane].at[v].word);
      });
    }
  }

  template <class X>
  static BATON_FN void keep(X& x, const params& p, int token, int unit, const lane_sums<X>& sum) {
    x.each_lane([&](int lane) {
      const lane_columns mine{unit, lane};
      if (mine.first >= p.s.hidden || mine.offset != 0) return;
      float* at = p.own_sums + static_cast<std::int64_t>(token) * p.s.hidden + mine.first;
      for (int i = 0; i < sums::columns; ++i) x.write(at + i, sum[lane].at[i]);
    });
  }

  template <class X>
  static BATON_FN void receive(X& x, const params& p, const typename X::template lanes<round_start>& start,
                               const share& mine) {
    for (int i = mine.nth; i < p.num_tokens * p.window.sum_units; i += mine.warps) {
      const int token = p.window.by_sum_units.quotient(i), unit = i - token * p.window.sum_units;
      typename X::template lanes<std::uint32_t> set;
      x.each_lane([&](int lane) { set[lane] = x.read(p.rank_sets + token); });
      auto shared = shared_row(x, p, token, unit);
      lane_sums<X> own;
      if (!own_sum(x, p, {p.s.rank, token, unit}, own)) return;
      const std::uint32_t ranks = x.broadcast(set, 0);
      const round_start now = x.broadcast(start, 0);
      if (now.aborted()) return;
      lane_sums<X> total;
      x.each_lane([&](int lane) {
        for (float& v : total[lane].at) v = 0.0f;
      });
      if constexpr (looked_at_once > 1) {
        const std::uint32_t sent = ranks & ((1u << p.num_ranks()) - 1);  // memory may be damaged
        for (int r = 0; r < p.num_ranks(); r += looked_at_once)
          if (!add_sums(x, p, now.epoch(), {{r, i}, sent >> r}, own, total)) return;
      } else {
        for (int r = 0; r < p.num_ranks(); ++r) {
          if (((ranks >> r) & 1) == 0) continue;
          if (r == p.s.rank)
            add_own(x, own, total);
          else if (!add_sum(x, p, now.epoch(), {r, i}, total))
            return;
        }
      }
      if (p.shared.present()) add_shared(x, unit, shared, total);
      write_out(x, p, token, unit, total);
    }
    if (mine.nth != 0) return;
    const round_start now = x.broadcast(start, 0);
    x.elect([&] {
      if (!now.aborted()) x.write(&p.epochs->combined, now.epoch());
    });
  }

  /// This rank's part of its own token, what lanes put into lines first. False: a row that cannot be.
  template <class X>
  static BATON_FN bool own_sum(X& x, const params& p, const sum_unit& at, lane_sums<X>& own) {
    if (p.senders > 0) {
      const token_choices<X> here = read_choices(x, p, p.s.rank, at.token);
      if (!sum_here(x, p, at, here, own)) return false;
    }
    x.each_lane([&](int lane) {
      const lane_columns mine{at.unit, lane};
      if (p.senders == 0) {
        const float* from = p.own_sums + static_cast<std::int64_t>(at.token) * p.s.hidden +
                            smaller(mine.first, p.s.hidden - sums::columns);
        for (int c = 0; c < sums::columns; ++c) own[lane].at[c] = x.read(from + c);
      }
      if (halves && mine.offset != 0)
        for (int c = 0; c < 4; ++c) own[lane].at[c] = own[lane].at[c + 4];
    });
    return true;
  }

  /// What shared experts made of a unit of a token, on its way before anything is waited for.
  template <class X>
  static BATON_FN typename X::template lanes<row_part> shared_row(X& x, const params& p, int token,
                                                                  int unit) {
    typename X::template lanes<row_part> row{};
    if (!p.shared.present()) return row;
    x.each_lane([&](int lane) {
      row[lane] = read_part(x, p.shared.of(token, p.s.hidden, column_of(p, unit, lane)));
    });
    return row;
  }

  /// Lanes that share a chunk add their halves of it, as they do of lines. Not before: nobody waits for the row until now.
  template <class X>
  static BATON_FN void add_shared(X& x, int unit, typename X::template lanes<row_part>& row,
                                  lane_sums<X>& total) {
    x.each_lane([&](int lane) {
      vec16(&part)[row_vectors] = row[lane].at;
      if (halves && lane_columns{unit, lane}.offset != 0) part[0] = vec16{{part[0].word[2], part[0].word[3]}};
      BATON_UNROLL
      for (int v = 0; v < row_vectors; ++v) add_bf16(total[lane].at + 8 * v, part[v]);
    });
  }

  template <class X>
  static BATON_FN void add_own(X& x, const lane_sums<X>& own, lane_sums<X>& total) {
    x.each_lane([&](int lane) {
      for (int c = 0; c < sums::columns; ++c) total[lane].at[c] += own[lane].at[c];
    });
  }
  template <class X>
  static BATON_FN bool add_sum(X& x, const params& p, std::uint64_t epoch, const unit_place& from,
                               lane_sums<X>& total) {
    typename X::template lanes<vec16> v[1];
    if (!Way::take_sum(x, p, epoch, from, v)) return false;
    sums::add(x, v[0], total);
    return true;
  }

  /// Of two ranks there is one to look at; sums in FP8 leave no registers for more.
  static constexpr int looked_at_once = params::is_pair || !halves || !Way::looks_at_sums ? 1 : 4;
  template <class X>
  using sum_lines = typename X::template lanes<vec16>[looked_at_once][1];

  /// Looks at the sums of other ranks from `from` on.
  template <class X>
  static BATON_FN void look_at_sums(X& x, const params& p, const unit_place& at, std::uint32_t others,
                                    int from, sum_lines<X>& seen) {
    BATON_UNROLL
    for (int k = 0; k < looked_at_once; ++k)
      if (k >= from && (others >> k & 1) != 0) Way::look_at_sum(x, p, {at.rank + k, at.unit}, seen[k]);
  }

  /// A unit of ranks from first.rank on: bit r of `ranks` is the r-th of them.
  struct wanted_sums {
    unit_place first;
    std::uint32_t ranks;
  };
  /// The parts of looked_at_once ranks, ascending. Where several are waited for, all are looked at together: before the first,
  /// and whenever one has been waited for.
  template <class X>
  static BATON_FN bool add_sums(X& x, const params& p, std::uint64_t epoch, const wanted_sums& wanted,
                                const lane_sums<X>& own, lane_sums<X>& total) {
    const unit_place& at = wanted.first;
    sum_lines<X> seen;
    const int own_bit = p.s.rank - at.rank;
    const std::uint32_t others = wanted.ranks & ((1u << looked_at_once) - 1) &
                                 ~(own_bit >= 0 && own_bit < looked_at_once ? 1u << own_bit : 0u);
    const bool are_several = (others & (others - 1)) != 0;
    if (are_several) look_at_sums(x, p, at, others, 0, seen);
    BATON_UNROLL
    for (int k = 0; k < looked_at_once; ++k) {
      if ((wanted.ranks >> k & 1) == 0) continue;
      if (k == own_bit) {
        add_own(x, own, total);
        continue;
      }
      if (!are_several || !Way::is_here(x, epoch, seen[k])) {
        if (!Way::take_sum(x, p, epoch, {at.rank + k, at.unit}, seen[k])) return false;
        if (are_several) look_at_sums(x, p, at, others, k + 1, seen);
      }
      sums::add(x, seen[k][0], total);
    }
    return true;
  }

  template <class X>
  static BATON_FN void write_out(X& x, const params& p, int token, int unit, const lane_sums<X>& total) {
    x.each_lane([&](int lane) {
      const lane_columns mine{unit, lane};
      if (mine.first >= p.s.hidden) return;
      const float(&t)[sums::columns] = total[lane].at;
      if constexpr (halves) {
        if (mine.count == 8) return p.output(x, token, mine.first, t);
        const float half[4] = {t[0], t[1], t[2], t[3]};
        p.output(x, token, mine.first + mine.offset, half);
      } else if (mine.offset == 0) {
        BATON_UNROLL
        for (int v = 0; v < row_vectors; ++v) p.output(x, token, mine.first + 8 * v, eight_of(t, v));
      }
    });
  }

  template <class X>
  static BATON_FN void refuse(X& x, const wait_site& where, std::uint64_t seen) {
    x.elect([&] { x.refuse(where, seen); });
  }
};

}  // namespace baton::ep::per_rank
