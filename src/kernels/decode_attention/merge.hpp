#pragma once
// How what was made of an item's keys is put together: by the blocks of a team, each of them some columns of O; and where the
// item was cut, by the last block of each slice of columns from the caller's memory, in the order of the parts, whoever is last.
//
//   block 0   | keys | send 8 rows | columns 0 to 63 of all blocks' rows | next 8 ... | out, or a part | the last: all parts
//   block 1   | keys | send 8 rows | columns 64 to 127 ...
//
// Rows are given (merge_given.hpp) where items have up to two rounds of them, and shown (merge_shown.hpp) where they have more:
// docs/decisions/0044.
#include "kernels/decode_attention/merge_given.hpp"
#include "kernels/decode_attention/merge_shown.hpp"
#include "protocol/signed_parts.hpp"

namespace baton::decode_attention {

template <config C, class X>
class merge_role {
  using sums = typename consume_role<C, X>::sums;
  using softmax = column_softmax<C, X>;
  using values = typename X::template column_values<C.rows_of_group()>;
  using rows_of_team = std::conditional_t<C.gives_rows(), merge_given<C, X>, merge_shown<C, X>>;

 public:
  BATON_FN merge_role(X& x, const params& p, walk<C, X>& items, int group)
      : x_{x}, p_{p}, items_{items}, group_{group}, rows_{x, p, items} {}

  /// A further part has come.
  BATON_FN void begin() { rows_.begin(); }
  /// `o` and `s` are of the block's keys of the part.
  BATON_FN void run(const sums (&o)[C.sums()], softmax& s) {
    const int rows = items_.now().tokens * p_.heads_of_group;
    values told{};
    if (items_.has_rows(group_)) told = rows_.told_of(s);
    BATON_ROLLED
    for (int first = 0; first < rows; first += round_rows) {
      const int turn = items_.now().turn + first / round_rows;
      if (first / C.rows_of_group() == group_) rows_.send(turn, first % C.rows_of_group(), o, s, told);
      rows_.take(turn, first, rows);
    }
    turns_ = items_.now().turn + ceil_div(rows, round_rows);
    if (items_.now().of.count > 1) merge_parts(rows);
  }
  /// There are no more.
  BATON_FN void end() { rows_.end(turns_); }

 private:
  static constexpr int wait_id = 1 + consumer_groups;  // of the barrier of both groups

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
    if (x_.read(last) != 0) rows_.add_parts(of, rows);
  }
  /// One lane. True: all parts are there.
  BATON_FN bool sign_part(const sharers& of, bool late) {
    const int team = shared_by_team(x_, x_.block());
    std::uint32_t* const word = p_.signed_parts + of.first * x_.cluster_blocks() + x_.cluster_block();
    if (late) {
      blot(x_, word);
      return false;
    }
    std::uint32_t seen = 0;
    const signing found = sign(x_, word, team - of.first, of.count, seen);
    if (found == signing::impossible) x_.refuse({.where = "decode.parts_signed"}, seen);
    return found == signing::all;
  }

  X& x_;
  const params& p_;
  walk<C, X>& items_;
  int group_;
  rows_of_team rows_;
  int turns_ = 0;  // of rows, so far
};

}  // namespace baton::decode_attention
