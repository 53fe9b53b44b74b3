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
//
// T1: where senders take what is next of all, each unit is taken by one: what is counted is 0 when the kernel begins, as the
//     round's dispatch has written (they follow each other), and only ever added to.
#include "base/bits.hpp"
#include "base/settled.hpp"
#include "exec/kernel.hpp"
#include "kernels/ep/per_rank/by_lines.hpp"
#include "kernels/ep/per_rank/round_start.hpp"
#include "kernels/ep/per_rank/sent_shares.hpp"
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
    const sum_unit first = first_unit(p, all.first(x, p));
    x.await_dependencies();
    const auto start = begin_round(x, &p.epochs->dispatched);
    if (x.warp() < p.senders) {
      if (!params::is_pair && p.taken_each > 0) return send_taken(x, p, start);
      all.each(x, p, [&](const sent_share& mine) { return send_sums(x, p, start, mine, first); });
    } else if (p.receives) {
      const int nth = (x.warp() - p.senders) * x.num_blocks() + x.block();
      receive(x, p, start, {p.s.rank, nth, (x.num_warps() - p.senders) * x.num_blocks()});
    }
  }

 private:
  using sent_shares = std::conditional_t<params::is_pair, shares_of_pair<params>, dealt_shares<params>>;
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

  template <class X>
  static BATON_FN void refuse_count(X& x, const params& p, const round_start& now, int source, int tokens) {
    refuse(x,
           {.where = combine_sites::count(),
            .peer = source,
            .epoch = static_cast<std::uint32_t>(now.epoch()),
            .expected = static_cast<std::uint64_t>(p.s.max_tokens)},
           static_cast<std::uint32_t>(tokens));
  }

  struct sum_unit {
    int source, token, unit;
  };
  static BATON_FN sum_unit unit_of(const params& p, int source, int nth) {
    const int token = p.window.by_sum_units.quotient(nth);
    return {source, token, nth - token * p.window.sum_units};
  }

  /// A sender's first, worked out before it waits for other kernels.
  static BATON_FN sum_unit first_unit(const params& p, const sent_share& mine) {
    sum_unit first = unit_of(p, mine.source, mine.nth);
    settle(first.token);
    settle(first.unit);
    return first;
  }

  /// What dispatch left of a token's choices on this rank: lane i has the i-th of those that are here.
  template <class X>
  struct token_choices {
    int count;
    typename X::template lanes<entry> nth;
  };

  /// Entries behind the last are of other rounds, and harmless: loads do not wait for each other.
  template <class X>
  static BATON_FN token_choices<X> read_choices(X& x, const params& p, const sum_unit& at) {
    const auto of_token = static_cast<std::uint32_t>(at.source * p.s.max_tokens + at.token);
    token_choices<X> found{};
    typename X::template lanes<std::uint32_t> set;
    x.each_lane([&](int i) {
      const std::uint32_t nth =
          of_token * static_cast<std::uint32_t>(p.s.top_k) + static_cast<std::uint32_t>(i);
      found.nth[i] = i < p.s.top_k ? x.read(p.entries + nth) : entry{0, 0.0f};
      set[i] = x.read(p.choices + of_token);
    });
    found.count = count_bits(x.broadcast(set, 0));
    return found;
  }

  /// False: the rank has given up, or what it knows of the source cannot be. Nothing asks for the round here, which a sender
  /// needs for its lines only: the compiler lets loads that come before such a question wait for its answer.
  template <class X>
  static BATON_FN bool send_sums(X& x, const params& p, const typename X::template lanes<round_start>& start,
                                 const sent_share& mine, const sum_unit& first) {
    const int most = p.s.max_tokens * p.window.sum_units;
    sum_unit at = mine.source == first.source ? first : unit_of(p, mine.source, mine.nth);
    int tokens = -1;
    for (int i = mine.nth; i < most;) {
      typename X::template lanes<std::int32_t> count{};
      if (tokens < 0) x.elect([&] { count[0] = x.read(p.token_counts + mine.source); });
      const token_choices<X> here = read_choices(x, p, at);  // on the way together with the count
      if (tokens < 0) tokens = x.broadcast(count, 0);
      if (tokens < 0 || tokens > p.s.max_tokens) {
        const round_start now = x.broadcast(start, 0);
        if (!now.aborted()) refuse_count(x, p, now, mine.source, tokens);
        return false;
      }
      if (at.token >= tokens) break;
      if (!send_sum(x, p, start, at, i, here)) return false;
      i += mine.warps;
      at = unit_of(p, mine.source, i);
    }
    return true;
  }

  /// The source's nth unit. False: the rank has given up, or a row that cannot be.
  template <class X>
  static BATON_FN bool send_sum(X& x, const params& p, const typename X::template lanes<round_start>& start,
                                const sum_unit& at, int nth, const token_choices<X>& here) {
    if (here.count == 0) return true;
    lane_sums<X> sum;
    if (!sum_here(x, p, start, at, here, sum)) return false;
    const std::uint64_t epoch = x.broadcast(start, 0).epoch();
    if (at.source == p.s.rank)
      keep(x, p, at.token, at.unit, sum);
    else
      Way::send_sum(x, p, epoch, {at.source, nth}, sums::lines_of(x, sum, at.unit, epoch));
    return true;
  }

  /// The nth of all units that are sent: those of the same token and columns of each rank side by side, so that all links are
  /// busy at any time.
  static BATON_FN sum_unit nth_unit(const params& p, int nth) {
    const int sources = p.receives ? p.num_ranks() - 1 : p.num_ranks(), of_rank = nth / sources;
    const int source = p.s.rank + 1 + nth - of_rank * sources;
    const int token = p.window.by_sum_units.quotient(of_rank);
    return {source < p.num_ranks() ? source : source - p.num_ranks(), token,
            of_rank - token * p.window.sum_units};
  }

  /// What a sender takes next is on its way while it sums what it took before.
  template <class X>
  static BATON_FN void send_taken(X& x, const params& p,
                                  const typename X::template lanes<round_start>& start) {
    const int each = p.taken_each, senders = p.senders * x.num_blocks();
    int most = -1;  // tokens of any rank, once they are known
    typename X::template lanes<int> tokens;
    x.each_lane([&](int r) { tokens[r] = r < p.num_ranks() ? x.read(p.token_counts + r) : 0; });
    for (int nth = (x.warp() * x.num_blocks() + x.block()) * each;;) {
      typename X::template lanes<std::uint32_t> next{};
      x.elect([&] {
        next[0] = x.template fetch_add<order::relaxed, scope::device>(p.units_taken,
                                                                      static_cast<std::uint32_t>(each));
      });
      for (const int behind = nth + each; nth < behind; ++nth) {
        const sum_unit at = nth_unit(p, nth);
        if (at.token >= p.s.max_tokens) return;
        const token_choices<X> here = read_choices(x, p, at);
        const round_start now = x.broadcast(start, 0);
        if (now.aborted()) return;
        if (most < 0 && !most_tokens(x, p, now, tokens, most)) return;
        if (at.token >= most) return;
        if (at.token >= x.broadcast(tokens, at.source)) continue;
        if (!send_sum(x, p, start, at, at.token * p.window.sum_units + at.unit, here)) return;
      }
      nth = senders * each + static_cast<int>(smaller(x.broadcast(next, 0), most_taken));
    }
  }
  static constexpr std::uint32_t most_taken = 1u << 24;  // memory may be damaged; there are never so many

  /// Of ranks whose sums are sent. False: a number that cannot be.
  template <class X>
  static BATON_FN bool most_tokens(X& x, const params& p, const round_start& now,
                                   const typename X::template lanes<int>& tokens, int& most) {
    for (int r = 0; r < p.num_ranks(); ++r) {
      const int here = x.broadcast(tokens, r);
      if (here < 0 || here > p.s.max_tokens) {
        refuse_count(x, p, now, r, here);
        return false;
      }
      if (r != p.s.rank || !p.receives) most = larger(most, here);
    }
    return true;
  }

  /// The weighted sum of a token's rows on this rank. False: the rank has given up, or a row that cannot be. That is looked at
  /// when the first rows are on their way: until then the last row stands for any that there is not.
  template <class X>
  static BATON_FN bool sum_here(X& x, const params& p, const typename X::template lanes<round_start>& start,
                                const sum_unit& at, const token_choices<X>& here, lane_sums<X>& sum) {
    row_vectors_of<X> from;
    typename X::template lanes<bool> sound;
    x.each_lane([&](int i) {
      const auto told = static_cast<std::uint32_t>(here.nth[i].row);
      from.row[i] = smaller(told, static_cast<std::uint32_t>(p.window.max_rows - 1));
      from.first[i] = static_cast<std::uint32_t>(column_of(p, at.unit, i)) / columns_of_vector;
      sound[i] = i >= here.count || from.row[i] == told;
      settle(from.row[i]);
      settle(from.first[i]);
      for (float& v : sum[i].at) v = 0.0f;
    });
    for (int first = 0; first < here.count; first += together) {
      some_rows<X> values;
      load_rows(x, p, from, {first, here.count}, values);
      if (first == 0) {
        if (x.broadcast(start, 0).aborted()) return false;
        if (!are_sound(x, p, at, here, sound)) return false;
      }
      add_rows(x, here, first, values, sum);
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
           static_cast<std::uint32_t>(x.broadcast(here.nth, lowest_bit(~all)).row));
    return false;
  }

  static constexpr int together = 4;
  static constexpr std::uint32_t columns_of_vector = sizeof(vec16) / sizeof(bfloat16);
  template <class X>
  struct some_rows {
    typename X::template lanes<row_part> at[together];
  };
  /// Lane i: the row of the i-th choice that is here; and the first of the lane's columns, in vec16s.
  template <class X>
  struct row_vectors_of {
    typename X::template lanes<std::uint32_t> row, first;
  };
  /// Choices that are here, from the first on.
  struct some_choices {
    int first, count;
  };

  /// Up to four rows, whose loads are in flight together. One code for any number: rows that there are not count nothing.
  /// Lines serve so few tokens that entries and vec16s can be counted in 32 bits.
  template <class X>
  static BATON_FN void load_rows(X& x, const params& p, const row_vectors_of<X>& from,
                                 const some_choices& some, some_rows<X>& values) {
    const auto* base = reinterpret_cast<const vec16*>(p.expert_output);
    const std::uint32_t vectors = static_cast<std::uint32_t>(p.s.hidden) / columns_of_vector;
    BATON_UNROLL
    for (int i = 0; i < together; ++i) {
      const std::uint32_t of = x.broadcast(from.row, some.first + i);
      x.each_lane([&](int lane) {
        values.at[i][lane] = {};
        if (some.first + i < some.count)
          values.at[i][lane] = read_part(x, base + (of * vectors + from.first[lane]));
      });
    }
  }
  template <class X>
  static BATON_FN void add_rows(X& x, const token_choices<X>& here, int first, const some_rows<X>& values,
                                lane_sums<X>& sum) {
    BATON_UNROLL
    for (int i = 0; i < together; ++i) {
      const float weight = first + i < here.count ? x.broadcast(here.nth, first + i).weight : 0.0f;
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
                               const sent_share& mine) {
    for (int i = mine.nth; i < p.num_tokens * p.window.sum_units; i += mine.warps) {
      const int token = p.window.by_sum_units.quotient(i), unit = i - token * p.window.sum_units;
      typename X::template lanes<std::uint32_t> set;
      x.each_lane([&](int lane) { set[lane] = x.read(p.rank_sets + token); });
      auto shared = shared_row(x, p, token, unit);
      lane_sums<X> own;
      if (!own_sum(x, p, start, {p.s.rank, token, unit}, own)) return;
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

  /// This rank's part of its own token, what lanes put into lines first. False: as sum_here.
  template <class X>
  static BATON_FN bool own_sum(X& x, const params& p, const typename X::template lanes<round_start>& start,
                               const sum_unit& at, lane_sums<X>& own) {
    if (p.senders > 0) {
      const token_choices<X> here = read_choices(x, p, at);
      if (!sum_here(x, p, start, at, here, own)) return false;
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
