#pragma once
// How what was made of an item's keys is put together: by the blocks of a team from each other's shared memory, each of them some
// columns of O; and where the item was cut, by the last block of each slice of columns from the caller's memory, in the order of
// the parts, whoever is last.
//
//   block 0   | keys | show 8 rows | columns 0 to 63 of all blocks' rows | next 8 ... | out, or a part | the last: all parts
//   block 1   | keys | show 8 rows | columns 64 to 127 ...
#include "base/convert.hpp"
#include "kernels/decode_attention/consume.hpp"
#include "protocol/signed_parts.hpp"
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
class merge_role {
  using T = value<C>;
  using sums = typename consume_role<C, X>::sums;
  using softmax = column_softmax<C, X>;
  using values = typename X::template column_values<C.rows_of_group()>;

 public:
  BATON_FN merge_role(X& x, const params& p, walk<C, X>& items, int group)
      : x_{x},
        p_{p},
        items_{items},
        group_{group},
        rows_{x, block_plan<C>{}.rows_staged(x), block_plan<C>{}.rows_taken(x)} {}

  /// `o` and `s` are of the block's keys of the part.
  BATON_FN void run(const sums (&o)[C.chunks()], softmax& s) {
    const int rows = items_.now().tokens * p_.heads_of_group;
    values all{};
    if (items_.has_rows(group_)) all = s.sums();
    BATON_ROLLED
    for (int first = 0; first < rows; first += round_rows) {
      const int turn = items_.now().turn + first / round_rows;
      if (first / C.rows_of_group() == group_) show(turn, first % C.rows_of_group(), o, s.most(), all);
      rows_.await(turn, wait_for(wait_of::rows_staged));
      each_place(smaller(rows - first, round_rows), [&](int row, int chunk) {
        running_row sum = gathered(row, chunk);
        items_.now().of.count == 1 ? store(first + row, chunk, sum) : keep(first + row, chunk, sum);
      });
      rows_.release();
    }
    turns_ = items_.now().turn + ceil_div(rows, round_rows);
    if (items_.now().of.count > 1) merge_parts(rows);
  }
  /// All that the block has shown has been read.
  BATON_FN void end() {
    if (turns_ > 0) rows_.acquire(turns_, wait_for(wait_of::rows_taken));
  }

 private:
  static constexpr int wait_id = 1 + consumer_groups;  // of the barrier of both groups

  BATON_FN auto wait_for(wait_of what) { return wait_or_note<scope::cluster, C>(x_, what); }
  BATON_FN bool is_late() { return x_.read(block_plan<C>{}.late(x_)) != 0; }
  BATON_FN int columns_of_block() { return C.head_dim / x_.cluster_blocks(); }
  BATON_FN int column_of(int chunk) { return x_.cluster_block() * columns_of_block() + chunk * 4; }

  /// f(row, chunk) for 16 bytes each of `rows` rows of the block's columns.
  template <class F>
  BATON_FN void each_place(int rows, F f) {
    const int chunks = columns_of_block() / 4;
    const int first = (x_.warp() - loader_groups * group_warps) * warp_lanes;
    x_.each_lane([&](int lane) {
      BATON_ROLLED
      for (int i = first + lane; i < rows * chunks; i += consumer_warps * warp_lanes)
        f(i / chunks, i % chunks);
    });
  }

  /// Rows `first` to first + 7 of the group, for all blocks of the team.
  BATON_FN void show(int turn, int first, const sums (&o)[C.chunks()], const values& most,
                     const values& all) {
    rows_.acquire(turn, wait_for(wait_of::rows_taken));
    constexpr int stride = C.staged_row() * 4;
    float* const to =
        reinterpret_cast<float*>(block_plan<C>{}.staged(x_)) + x_.warp_of_group() * group_warp_rows;
    BATON_UNROLL
    for (int i = 0; i < C.chunks(); ++i) {
      sums rows = o[i];
      x_.each_pair(rows, [&](int column, int row, float& v0, float& v1) {
        if (row < first || row >= first + round_rows) return;
        float* const at = to + (row - first) * stride + i * tile<C>::columns + column;
        x_.write(at, v0), x_.write(at + stride, v1);
      });
    }
    if (x_.warp_of_group() == 0) {
      row_share* const shares = block_plan<C>{}.shares(x_);
      x_.each_column(most, [&](int row, float v) {
        if (row >= first && row < first + round_rows) x_.write(&shares[row - first].most, v);
      });
      x_.each_column(all, [&](int row, float v) {
        if (row >= first && row < first + round_rows) x_.write(&shares[row - first].sum, v);
      });
    }
    rows_.tell();
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
    four_floats* const at = block_plan<C>{}.staged(x_) + row * C.staged_row() + column_of(chunk) / 4;
    return added_up(team, [&](int b, row_share& share, four_floats& values) {
      share = x_.read(x_.in_block(block_plan<C>{}.shares(x_) + row, b));
      values = x_.read(x_.in_block(at, b));
    });
  }

  BATON_FN void store(int row, int chunk, running_row& sum) {
    const part w = items_.now();
    constexpr float log2_e = 1.4426950408889634f;
    const int token = p_.group.quotient(row);
    const int head = w.kv_head * p_.heads_of_group + row - token * p_.heads_of_group;
    const float lse = sum.finish(p_.sinks != nullptr ? x_.read(p_.sinks + head) * log2_e : -INFINITY);
    if (is_late()) return;
    const int column = column_of(chunk);
    struct alignas(8) {
      std::uint32_t at[2];
    } const rounded{
        {pack_two<T>(sum.sums().at[0], sum.sums().at[1]), pack_two<T>(sum.sums().at[2], sum.sums().at[3])}};
    T* const to = static_cast<T*>(p_.out) + (w.row + token) * p_.out_row + head * C.head_dim + column;
    x_.write(reinterpret_cast<std::remove_const_t<decltype(rounded)>*>(to), rounded);
    if (p_.lse != nullptr && column == 0) x_.write(p_.lse + place_of_lse(w, token, head), lse);
  }
  BATON_FN std::int64_t place_of_lse(const part& w, int token, int head) {
    if (!p_.lse_by_sequence) return std::int64_t{head} * p_.all_rows + w.row + token;
    return (std::int64_t{w.sequence} * p_.heads + head) * p_.max_rows + w.token + token;
  }

  /// Where the part of team `team` of an item lies in the caller's memory: a team has at most one that an item ends with and one
  /// that an item begins with.
  BATON_FN std::int64_t place_of(const sharers& of, int team, int row) {
    const int begins = team == of.first;
    return (std::int64_t{team * x_.cluster_blocks() + x_.cluster_block()} * 2 + begins) * p_.rows_of_item() +
           row;
  }
  BATON_FN four_floats* sums_at(std::int64_t place, int chunk) {
    return reinterpret_cast<four_floats*>(p_.partial_sums + place * columns_of_block()) + chunk;
  }
  BATON_FN int own_team() { return x_.block() / x_.cluster_blocks(); }
  BATON_FN void keep(int row, int chunk, const running_row& sum) {
    if (is_late()) return;
    const std::int64_t place = place_of(items_.now().of, own_team(), row);
    x_.write(sums_at(place, chunk), sum.sums());
    if (chunk == 0) x_.write(p_.partial_shares + place, sum.share());
  }
  /// The block that is the last of those with the same columns has all parts.
  BATON_FN void merge_parts(int rows) {
    const sharers of = items_.now().of;
    std::uint32_t* const last = block_plan<C>{}.last(x_);
    x_.sync_groups(wait_id, consumer_groups);
    if (x_.warp() == loader_groups * group_warps) {
      const bool late = report_if_late<C>(x_);  // before others miss the part
      x_.elect([&] { x_.write(last, sign_part(of, late) ? 1u : 0u); });
    }
    x_.sync_groups(wait_id, consumer_groups);
    if (x_.read(last) == 0) return;
    // Where one part lies follows from where the one before it does, but for the first.
    const std::int64_t own = place_of(of, of.first, 0), others = place_of(of, of.first + 1, 0);
    const int step = 2 * x_.cluster_blocks() * p_.rows_of_item(), chunks = columns_of_block() / 4;
    const row_share* const shares = p_.partial_shares + others;
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

  /// One lane. True: all parts are there.
  BATON_FN bool sign_part(const sharers& of, bool late) {
    std::uint32_t* const word = p_.signed_parts + of.first * x_.cluster_blocks() + x_.cluster_block();
    if (late) {
      blot(x_, word);
      return false;
    }
    std::uint32_t seen = 0;
    const signing found = sign(x_, word, own_team() - of.first, of.count, seen);
    if (found == signing::impossible) x_.refuse({.where = "decode.parts_signed"}, seen);
    return found == signing::all;
  }

  X& x_;
  const params& p_;
  walk<C, X>& items_;
  int group_;
  team_rows<X> rows_;
  int turns_ = 0;  // of rows, so far
};

}  // namespace baton::decode_attention
