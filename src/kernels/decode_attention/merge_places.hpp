#pragma once
// What both ways of putting rows together (merge_shown.hpp, merge_given.hpp) know: who makes which place of O, and where parts of
// items lie that were cut.
#include "base/convert.hpp"
#include "kernels/decode_attention/consume.hpp"

namespace baton::decode_attention {

template <config C, class X>
class merge_places {
 public:
  BATON_FN merge_places(X& x, const params& p, walk<C, X>& items) : x_{x}, p_{p}, items_{items} {}

 protected:
  using sums = typename consume_role<C, X>::sums;
  using softmax = column_softmax<C, X>;
  using values = typename X::template column_values<C.rows_of_group()>;

  BATON_FN auto wait_for(wait_of what) { return wait_or_note<scope::cluster, C>(x_, what); }
  BATON_FN bool is_late() { return x_.read(block_plan<C>{}.late(x_)) != 0; }
  /// Of O, 2 to the power of these.
  BATON_FN int columns_of_block() { return 1 << column_bits(); }
  BATON_FN int column_bits() { return (C.head_dim == 512 ? 9 : 8) - team_bits(x_); }
  BATON_FN int first_column() { return x_.cluster_block() * columns_of_block(); }
  /// Of O, the first of 16 columns that sum `i` of this warp has, and which of those row `row` of the sum is.
  BATON_FN int first_column_of(int i) {
    if constexpr (C.e4m3) return (row_warp<C>(x_) * C.sums() + i) * group_warp_rows;
    return i * tile<C>::columns + row_warp<C>(x_) * group_warp_rows;
  }
  BATON_FN static int column_of_sum(int row) { return C.e4m3 ? turned_column(row) : row; }

  /// f(i, lane) of so many places, by the lanes of both groups in turn.
  template <class F>
  BATON_FN void each_index(int count, F f) {
    const int first = first_index();
    x_.each_lane([&](int lane) {
      BATON_ROLLED
      for (int i = first + lane; i < count; i += consumer_warps * warp_lanes) f(i, lane);
    });
  }
  /// Of lane 0.
  BATON_FN int first_index() { return (x_.warp() - loader_groups * group_warps) * warp_lanes; }
  BATON_FN std::int64_t place_of_lse(const part& w, int token, int head) {
    if (!p_.lse_by_sequence) return std::int64_t{head} * p_.all_rows + w.row + token;
    return (std::int64_t{w.sequence} * p_.heads + head) * p_.max_rows + w.token + token;
  }

  BATON_FN int own_team() { return shared_by_team(x_, x_.block()); }
  /// The number, in the caller's memory, of team `team`'s part of an item: a team has at most one that an item ends with and one
  /// that an item begins with.
  BATON_FN std::int64_t number_of(const sharers& of, int team) {
    const int begins = team == of.first;
    return std::int64_t{team * x_.cluster_blocks() + x_.cluster_block()} * 2 + begins;
  }

  X& x_;
  const params& p_;
  walk<C, X>& items_;
};

}  // namespace baton::decode_attention
