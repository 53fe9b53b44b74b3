#pragma once
// Rows that a block gives to its team: each block stores those columns of its rows that another one puts together into the shared
// memory of that one. A thread has two columns of two rows, means of which each is weighed by one logarithm a row.
#include "kernels/decode_attention/merge_places.hpp"
#include "protocol/given_rows.hpp"

namespace baton::decode_attention {

/// Two rows' values of two columns, of some parts of the keys: means of each, weighed by what their weights' sums are to base 2.
class weighed_square {
 public:
  /// The first `count` of these. Where there are no weights, -INFINITY, a mean counts nothing, whatever it is.
  template <int n>
  BATON_FN void add(const row_pair (&logs)[n], const row_square (&means)[n], int count) {
    BATON_UNROLL
    for (int r = 0; r < 2; ++r) {
      const float before = most_.at[r];
      BATON_UNROLL
      for (int i = 0; i < n; ++i)
        if (i < count) most_.at[r] = fmaxf(most_.at[r], logs[i].at[r]);
      const float share = exp2_quickly(before - most_.at[r]);
      weights_.at[r] *= share, sums_.of[0].at[r] *= share, sums_.of[1].at[r] *= share;
      BATON_UNROLL
      for (int i = 0; i < n; ++i) {
        if (i >= count || logs[i].at[r] == -INFINITY) continue;
        const float weight = exp2_quickly(logs[i].at[r] - most_.at[r]);
        weights_.at[r] += weight;
        sums_.of[0].at[r] += weight * means[i].of[0].at[r];
        sums_.of[1].at[r] += weight * means[i].of[1].at[r];
      }
    }
  }
  /// Of a row, a logit to base 2 of which nothing is summed; rows without weights stay so.
  BATON_FN void see_sink(int r, float sink) {
    if (weights_.at[r] == 0.0f) return;
    const float top = larger(most_.at[r], sink), share = exp2_quickly(most_.at[r] - top);
    weights_.at[r] = weights_.at[r] * share + exp2_quickly(sink - top);
    sums_.of[0].at[r] *= share, sums_.of[1].at[r] *= share, most_.at[r] = top;
  }
  /// Of all of them.
  BATON_FN float log(int r) const {
    return weights_.at[r] == 0.0f ? -INFINITY : most_.at[r] + log2f(weights_.at[r]);
  }
  BATON_FN row_square means() const {
    row_square all;
    BATON_UNROLL
    for (int r = 0; r < 2; ++r) {
      const float share = weights_.at[r] == 0.0f ? 0.0f : 1.0f / weights_.at[r];
      all.of[0].at[r] = sums_.of[0].at[r] * share, all.of[1].at[r] = sums_.of[1].at[r] * share;
    }
    return all;
  }

 private:
  row_pair most_{{attention_kernels::no_score, attention_kernels::no_score}}, weights_{};
  row_square sums_{};
};

template <config C, class X>
class merge_given : merge_places<C, X> {
  static_assert(C.rows_of_group() % round_rows == 0);
  using base = merge_places<C, X>;
  using T = value<C>;
  using base::x_, base::p_, base::items_;
  using typename base::softmax, typename base::sums, typename base::values;

 public:
  BATON_FN merge_given(X& x, const params& p, walk<C, X>& items)
      : base{x, p, items}, rows_{x, block_plan<C>{}.rows_there(x), block_plan<C>{}.rows_taken(x)} {}

  /// Rows of the part before have been read.
  BATON_FN void begin() {
    if (items_.now().number > 0) rows_.release();
  }
  /// Of each row's sum of weights, to base 2; -INFINITY where there are none.
  BATON_FN values told_of(softmax& s) {
    const float scale = p_.scale;
    return x_.combined_columns(s.most(), s.sums(), [scale](float most, float sum) {
      return sum == 0.0f ? -INFINITY : most * scale - C.weight_bits() + log2f(sum);
    });
  }
  /// The group's rows, for all blocks of the team: each gets its columns, as means of the block's keys.
  BATON_FN void send(int turn, int first, const sums (&o)[C.sums()], softmax& s, const values& logs) {
    rows_.acquire(turn, this->wait_for(wait_of::rows_taken));
    const int team = x_.cluster_blocks();
    if (team == 1) {
      each_given(first, o, s, logs, [&](auto, auto* at, const auto& v) { x_.write(at, v); });
      return rows_.tell();
    }
    if (row_warp<C>(x_) == 0)
      rows_.expect((C.head_dim + team) * round_rows * static_cast<int>(sizeof(float)));
    each_given(first, o, s, logs,
               [&](auto there, auto* at, const auto& v) { x_.store_counted(there, at, v, rows_.filled()); });
  }
  /// All blocks' rows of a turn, which are the item's from `first` on; it has `rows`.
  BATON_FN void take(int turn, int first, int rows) {
    // A lane's places of a round have the same rows: where these go is found out while others are on their way.
    typename X::template lanes<stored_rows> to;
    x_.each_lane([&](int lane) { to[lane] = rows_at(first + row_of(this->first_index() + lane), rows); });
    rows_.await(turn, this->wait_for(wait_of::rows_there));
    const bool late = this->is_late();
    each_place([&](int place, int lane) {
      weighed_square all = gathered(place);
      if (late) return;
      items_.now().of.count == 1 ? store(to[lane], column_of(place), all) : keep(first, place, rows, all);
    });
    if (first + round_rows < rows) rows_.release();
  }
  /// Parts of all teams, which lie in the caller's memory.
  BATON_FN void add_parts(const sharers& of, int rows) {
    if (this->is_late()) return;
    // Where one part lies follows from where the one before it does, but for the first.
    const std::int64_t own = place_of(of, of.first), others = place_of(of, of.first + 1);
    const int step = 2 * x_.cluster_blocks() * p_.rows_of_part(), squares = this->columns_of_block() / 4;
    const float* const logs = p_.partial_weights + others;
    const row_square* const means = means_at(others);
    const auto back = static_cast<int>(own - others);
    const int bits = this->column_bits() + 1;  // of the places of a round
    each_place(
        [&](int i, int) {
          const int first = (i >> bits) * round_rows, place = i & ((1 << bits) - 1);
          if (first + row_of(place) >= rows) return;
          weighed_square all =
              added_up<parts_at_once>(of.count, [&](int part, row_pair& log, row_square& mean) {
                const int at = part == 0 ? back : (part - 1) * step;
                log = x_.read(reinterpret_cast<const row_pair*>(logs + at + first + row_of(place)));
                mean = x_.read(means + at * squares + place_of_part(first, place));
              });
          store(rows_at(first + row_of(place), rows), column_of(place), all);
        },
        ceil_div(rows, round_rows));
  }
  /// Who has awaited the last turn may leave.
  BATON_FN void end(int) {}

 private:
  static constexpr int row_pairs = round_rows / 2;
  static constexpr int parts_at_once = 4;  // as many as four items have of 15 teams

  /// put(there, at, v) for all that a warp has of a round of the group's rows, from `first` on: means of the keys and, of as many
  /// blocks as its share is, logs.
  template <class Put>
  BATON_FN void each_given(int first, const sums (&o)[C.sums()], softmax& s, const values& logs, Put put) {
    const float scale = p_.scale;
    const values shares = x_.combined_columns(s.most(), logs, [scale](float most, float log) {
      return exp2_quickly(most * scale - C.weight_bits() - log);
    });
    const int own = x_.cluster_block(), bits = this->column_bits();
    row_pair* const own_rows = block_plan<C>{}.given(x_) + (own << bits) * row_pairs;
    BATON_UNROLL
    for (int i = 0; i < C.sums(); ++i) {
      sums rows = o[i];
      x_.scale_columns(rows, shares);
      const int begin = this->first_column_of(i);
      const auto there = x_.reach(begin >> bits);
      row_pair* const to = own_rows + (begin & ((1 << bits) - 1)) * row_pairs;
      x_.each_pair(rows, [&](int sum, int row, float& v0, float& v1) {
        if (is_of_round(row, first))
          put(there, to + this->column_of_sum(sum) * row_pairs + row % round_rows / 2, row_pair{{v0, v1}});
      });
    }
    auto* const own_logs = reinterpret_cast<float*>(block_plan<C>{}.given_logs(x_) + own * row_pairs);
    BATON_ROLLED
    for (int block = row_warp<C>(x_); block < x_.cluster_blocks(); block += C.row_warps()) {
      const auto there = x_.reach(block);
      x_.each_column(logs, [&](int row, float v) {
        if (is_of_round(row, first)) put(there, own_logs + row % round_rows, v);
      });
    }
  }
  BATON_FN static bool is_of_round(int row, int first) {
    return C.rows_of_group() == round_rows || row / round_rows == first / round_rows;
  }

  /// f(place, lane) of a round's places: two rows of two of the block's columns. Lanes side by side have a line of rows, and
  /// the next.
  template <class F>
  BATON_FN void each_place(F f, int rounds = 1) {
    this->each_index(this->columns_of_block() / 2 * row_pairs * rounds, f);
  }
  BATON_FN static int column_of(int place) { return place / row_pairs * 2; }
  BATON_FN static int row_of(int place) { return place % row_pairs * 2; }
  /// Of `count` parts in turn; `read(i, logs, means)` is done for some parts at a time.
  template <int at_once, class Read>
  BATON_FN weighed_square added_up(int count, Read read) {
    weighed_square all;
    BATON_ROLLED
    for (int first = 0; first < count; first += at_once) {
      row_pair logs[at_once];
      row_square means[at_once];
      BATON_UNROLL
      for (int i = 0; i < at_once; ++i)
        if (first + i < count) read(first + i, logs[i], means[i]);
      all.add(logs, means, count - first);
    }
    return all;
  }
  /// Of a place, from all blocks.
  BATON_FN weighed_square gathered(int place) {
    const int team =
        x_.cluster_blocks();  // the largest are what short caches wait for: with numbers that are known before
    return team == most_team ? gathered(place, most_team, C.head_dim / most_team)
                             : gathered(place, team, this->columns_of_block());
  }
  BATON_FN weighed_square gathered(int place, int team, int columns) {
    const row_pair* const logs_at = block_plan<C>{}.given_logs(x_) + place % row_pairs;
    const row_pair* const means_at =
        block_plan<C>{}.given(x_) + column_of(place) * row_pairs + place % row_pairs;
    return added_up<most_team>(team, [&](int from, row_pair& logs, row_square& means) {
      logs = x_.read(logs_at + from * row_pairs);
      const row_pair* const at = means_at + from * columns * row_pairs;
      means = {{x_.read(at), x_.read(at + row_pairs)}};
    });
  }

  /// Two rows of the item that follow one another, if both are there, and where the block's columns of them are in O.
  struct stored_rows {
    int count;
    int tokens[2], heads[2];
    T* out[2];
  };
  BATON_FN stored_rows rows_at(int row, int rows) {
    const part w = items_.now();
    stored_rows at;
    at.count = smaller(rows - row, 2);
    BATON_UNROLL
    for (int r = 0; r < 2; ++r) {
      const int own = smaller(row + r, rows - 1);
      at.tokens[r] = p_.group.quotient(own);
      at.heads[r] = w.kv_head * p_.heads_of_group + own - at.tokens[r] * p_.heads_of_group;
      at.out[r] = static_cast<T*>(p_.out) + (w.row + at.tokens[r]) * p_.out_row + at.heads[r] * C.head_dim +
                  this->first_column();
    }
    return at;
  }
  /// Of two of the block's columns.
  BATON_FN void store(const stored_rows& to, int column, weighed_square& all) {
    constexpr float log2_e = 1.4426950408889634f, ln_2 = 0.6931471805599453f;
    if (p_.sinks != nullptr) {
      BATON_UNROLL
      for (int r = 0; r < 2; ++r) all.see_sink(r, x_.read(p_.sinks + to.heads[r]) * log2_e);
    }
    const row_square means = all.means();
    BATON_UNROLL
    for (int r = 0; r < 2; ++r) {
      if (r >= to.count) return;
      x_.write(reinterpret_cast<std::uint32_t*>(to.out[r] + column),
               pack_two<T>(means.of[0].at[r], means.of[1].at[r]));
      if (p_.lse != nullptr && this->first_column() + column == 0)
        x_.write(p_.lse + this->place_of_lse(items_.now(), to.tokens[r], to.heads[r]), all.log(r) * ln_2);
    }
  }

  /// Where rows of the part of team `team` of an item begin in the caller's memory.
  BATON_FN std::int64_t place_of(const sharers& of, int team) {
    return this->number_of(of, team) * p_.rows_of_part();
  }
  /// Of a part that begins at `place`: two rows of two columns.
  BATON_FN row_square* means_at(std::int64_t place) {
    return reinterpret_cast<row_square*>(p_.partial_rows + place * this->columns_of_block());
  }
  /// Where those of a place are, from there on.
  BATON_FN int place_of_part(int first, int place) {
    return (first / 2 + place % row_pairs) * (this->columns_of_block() / 2) + place / row_pairs;
  }
  BATON_FN void keep(int first, int place, int rows, const weighed_square& all) {
    if (first + row_of(place) >= rows) return;
    const std::int64_t begin = place_of(items_.now().of, this->own_team());
    x_.write(means_at(begin) + place_of_part(first, place), all.means());
    if (column_of(place) == 0)
      x_.write(reinterpret_cast<row_pair*>(p_.partial_weights + begin + first + row_of(place)),
               row_pair{{all.log(0), all.log(1)}});
  }

  given_rows<X> rows_;
};

}  // namespace baton::decode_attention
