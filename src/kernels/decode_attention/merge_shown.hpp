#pragma once
// Rows that a block shows to its team in its own shared memory, where all others read them. A thread has four columns of a row.
#include "kernels/decode_attention/merge_places.hpp"
#include "protocol/team_rows.hpp"

namespace baton::decode_attention {

/// Rows of parts of the keys, one after the other: weights against 2^most, their sum, and four of the row's sums.
class running_row {
 public:
  BATON_FN explicit running_row(float scale) : scale_{scale} {}

  /// Keys that were none, or not seen, count nothing, whatever `sums` holds.
  BATON_FN void add(const row_share& share, const four_floats& sums) {
    if (share.sum == 0.0f) return;
    const float most = larger(all_.most, share.most);
    const float before = exp2_quickly((all_.most - most) * scale_),
                now = exp2_quickly((share.most - most) * scale_);
    all_ = {most, all_.sum * before + share.sum * now};
    BATON_UNROLL
    for (int i = 0; i < 4; ++i) sums_.at[i] = sums_.at[i] * before + sums.at[i] * now;
  }
  BATON_FN const row_share& share() const { return all_; }
  BATON_FN const four_floats& sums() const { return sums_; }

  /// With a sink, a logit to base 2, or -INFINITY. Sums become O; the log-sum-exp is returned.
  BATON_FN float finish(float sink) {
    constexpr float ln_2 = 0.6931471805599453f;
    const float low = all_.most * scale_, top = larger(low, sink), share = exp2_quickly(low - top);
    const float whole = all_.sum * share + exp2_quickly(sink - top);
    const bool nothing = all_.sum == 0.0f;
    BATON_UNROLL
    for (float& v : sums_.at) v = nothing ? 0.0f : v * (share / whole);
    return nothing ? -INFINITY : (top + log2f(whole)) * ln_2;
  }

 private:
  float scale_;
  row_share all_{attention_kernels::no_score, 0.0f};
  four_floats sums_{};
};

template <config C, class X>
class merge_shown : merge_places<C, X> {
  using base = merge_places<C, X>;
  using T = value<C>;
  using base::x_, base::p_, base::items_;
  using typename base::softmax, typename base::sums, typename base::values;

 public:
  BATON_FN merge_shown(X& x, const params& p, walk<C, X>& items)
      : base{x, p, items}, rows_{x, block_plan<C>{}.rows_there(x), block_plan<C>{}.rows_taken(x)} {}

  BATON_FN void begin() {}
  /// What is told of each row beside its largest score.
  BATON_FN values told_of(softmax& s) { return s.sums(); }
  /// Rows `first` to first + 7 of the group, for all blocks of the team.
  BATON_FN void send(int turn, int first, const sums (&o)[C.sums()], softmax& s, const values& all) {
    rows_.acquire(turn, this->wait_for(wait_of::rows_taken));
    constexpr int stride = C.shown_row() * 4;
    float* const to =
        reinterpret_cast<float*>(block_plan<C>{}.shown(x_)) + x_.warp_of_group() * group_warp_rows;
    BATON_UNROLL
    for (int i = 0; i < C.sums(); ++i) {
      sums rows = o[i];
      x_.each_pair(rows, [&](int column, int row, float& v0, float& v1) {
        if (row < first || row >= first + round_rows) return;
        float* const at = to + (row - first) * stride + i * tile<C>::columns + column;
        x_.write(at, v0), x_.write(at + stride, v1);
      });
    }
    if (x_.warp_of_group() == 0) {
      row_share* const shares = block_plan<C>{}.shown_shares(x_);
      x_.each_column(s.most(), [&](int row, float v) {
        if (row >= first && row < first + round_rows) x_.write(&shares[row - first].most, v);
      });
      x_.each_column(all, [&](int row, float v) {
        if (row >= first && row < first + round_rows) x_.write(&shares[row - first].sum, v);
      });
    }
    rows_.tell();
  }
  /// All blocks' rows of a turn, which are the item's from `first` on; it has `rows`.
  BATON_FN void take(int turn, int first, int rows) {
    rows_.await(turn, this->wait_for(wait_of::rows_there));
    each_place(smaller(rows - first, round_rows), [&](int row, int chunk) {
      running_row sum = gathered(row, chunk);
      items_.now().of.count == 1 ? store(first + row, chunk, sum) : keep(first + row, chunk, sum);
    });
    rows_.release();
  }
  /// Parts of all teams, which lie in the caller's memory.
  BATON_FN void add_parts(const sharers& of, int rows) {
    // Where one part lies follows from where the one before it does, but for the first.
    const std::int64_t own = place_of(of, of.first, 0), others = place_of(of, of.first + 1, 0);
    const int step = 2 * x_.cluster_blocks() * p_.rows_of_item(), chunks = this->columns_of_block() / 4;
    const row_share* const shares = shares_of_parts() + others;
    const four_floats* const sums = sums_at(others, 0);
    const auto back = static_cast<int>(own - others);
    each_place(rows, [&](int row, int chunk) {
      running_row sum = added_up(of.count, [&](int i, row_share& share, four_floats& values) {
        const int at = (i == 0 ? back : (i - 1) * step) + row;
        share = x_.read(shares + at);
        values = x_.read(sums + at * chunks + chunk);
      });
      store(row, chunk, sum);
    });
  }
  /// All that the block has shown, in so many turns, has been read.
  BATON_FN void end(int turns) {
    if (turns > 0) rows_.acquire(turns, this->wait_for(wait_of::rows_taken));
  }

 private:
  BATON_FN int column_of(int chunk) { return this->first_column() + chunk * 4; }
  /// f(row, chunk) for 16 bytes each of `rows` rows of the block's columns.
  template <class F>
  BATON_FN void each_place(int rows, F f) {
    const int bits = this->column_bits() - 2;
    this->each_index(rows << bits, [&](int i, int) { f(i >> bits, i & ((1 << bits) - 1)); });
  }

  /// Four of a row's values, of `count` parts in turn; `read(i, share, values)` is done for some parts at a time.
  template <class Read>
  BATON_FN running_row added_up(int count, Read read) {
    constexpr int at_once = C.rows == 16 ? 8 : 4;  // as there are registers
    running_row sum{p_.scale};
    BATON_ROLLED
    for (int first = 0; first < count; first += at_once) {
      row_share shares[at_once];
      four_floats values[at_once];
      BATON_UNROLL
      for (int i = 0; i < at_once; ++i)
        if (first + i < count) read(first + i, shares[i], values[i]);
      BATON_UNROLL
      for (int i = 0; i < at_once; ++i)
        if (first + i < count) sum.add(shares[i], values[i]);
    }
    return sum;
  }
  /// Of a row that is shown, from all blocks.
  BATON_FN running_row gathered(int row, int chunk) {
    const int team = x_.cluster_blocks();
    four_floats* const at = block_plan<C>{}.shown(x_) + row * C.shown_row() + column_of(chunk) / 4;
    return added_up(team, [&](int b, row_share& share, four_floats& values) {
      share = x_.read(x_.in_block(block_plan<C>{}.shown_shares(x_) + row, b));
      values = x_.read(x_.in_block(at, b));
    });
  }

  BATON_FN void store(int row, int chunk, running_row& sum) {
    const part w = items_.now();
    constexpr float log2_e = 1.4426950408889634f;
    const int token = p_.group.quotient(row);
    const int head = w.kv_head * p_.heads_of_group + row - token * p_.heads_of_group;
    const float lse = sum.finish(p_.sinks != nullptr ? x_.read(p_.sinks + head) * log2_e : -INFINITY);
    if (this->is_late()) return;
    const int column = column_of(chunk);
    struct alignas(8) {
      std::uint32_t at[2];
    } const rounded{
        {pack_two<T>(sum.sums().at[0], sum.sums().at[1]), pack_two<T>(sum.sums().at[2], sum.sums().at[3])}};
    T* const to = static_cast<T*>(p_.out) + (w.row + token) * p_.out_row + head * C.head_dim + column;
    x_.write(reinterpret_cast<std::remove_const_t<decltype(rounded)>*>(to), rounded);
    if (p_.lse != nullptr && column == 0) x_.write(p_.lse + this->place_of_lse(w, token, head), lse);
  }

  BATON_FN std::int64_t place_of(const sharers& of, int team, int row) {
    return this->number_of(of, team) * p_.rows_of_item() + row;
  }
  BATON_FN four_floats* sums_at(std::int64_t place, int chunk) {
    return reinterpret_cast<four_floats*>(p_.partial_rows + place * this->columns_of_block()) + chunk;
  }
  BATON_FN row_share* shares_of_parts() { return reinterpret_cast<row_share*>(p_.partial_weights); }
  BATON_FN void keep(int row, int chunk, const running_row& sum) {
    if (this->is_late()) return;
    const std::int64_t place = place_of(items_.now().of, this->own_team(), row);
    x_.write(sums_at(place, chunk), sum.sums());
    if (chunk == 0) x_.write(shares_of_parts() + place, sum.share());
  }

  team_rows<X> rows_;
};

}  // namespace baton::decode_attention
