#pragma once
// What the ways of layout per_rank speak of: places of ids and units, and a unit as a warp holds it.
#include "kernels/ep/per_rank/params.hpp"

namespace baton::ep::per_rank {

struct index_sites {
  static consteval site noted() { return "dispatch.ids_noted"; }
  static consteval site known() { return "dispatch.rows_known"; }
  static consteval site line() { return "dispatch.line"; }
};
struct sum_sites {
  static consteval site line() { return "combine.line"; }
};
/// By flags.
struct flag_sites {
  static consteval site unit() { return "dispatch.words"; }
  static consteval site sum() { return "combine.words"; }
  static consteval site cleared() { return "dispatch.cleared"; }
};

/// An access of a source's ids.
struct id_access {
  int source, access;
};

/// A unit of a token or a sum, by its number among all of a rank's tokens; and whose token it is, or who has made the sum or is
/// to get it.
struct unit_place {
  int rank, unit;
};

/// A unit of a token of `source`.
struct token_unit {
  int source, token, unit;
};

/// A lane's eight columns of a unit of a sum. Lines hold 15 chunks of them for each two: the lanes with flags share one between
/// two lines, half each.
struct lane_columns {
  int first;   // column
  int offset;  // of what this lane puts into its line, in its chunk
  int count;
  BATON_FN lane_columns(int unit, int lane) {
    const int line = lane / lanes_of_line, place = lane % lanes_of_line;
    const int whole = lines_of_access * (lanes_of_line - 1);
    const int chunk = holds_flag(lane) ? whole + line / 2 : line * (lanes_of_line - 1) + place;
    first = unit * sum_columns + chunk * 8;
    offset = holds_flag(lane) ? line % 2 * 4 : 0;
    count = holds_flag(lane) ? 4 : 8;
  }
};

/// The same of a unit in block FP8: three blocks of 128 columns, of which eight lanes have sixteen each. The last of these holds
/// a flag, and the block's scale before it; so a lane of the last line brings its columns.
///
///   lane   0-6, 8-14, 16-22   7, 15, 23        24, 25, 26               27-30     31
///   holds  16 e4m3            scale and flag   16 e4m3, of 7, 15, 23    nothing   flag
struct fp8_lane_columns {
  static constexpr int lanes_of_block = lanes_of_line, columns_of_lane = 16, first_moved = 3 * lanes_of_line;
  int first;   // column; behind all of them where a lane has none
  int offset;  // not 0: another lane brings them
  int block;   // of the unit's
  BATON_FN fp8_lane_columns(int unit, int lane) {
    const bool is_moved = lane >= first_moved;
    block = is_moved ? lane - first_moved : lane / lanes_of_block;
    const int chunk = is_moved ? (block + 1) * lanes_of_block - 1 : lane;
    first = block < blocks_of_sum ? unit * fp8_sum_columns + chunk * columns_of_lane : max_hidden;
    offset = holds_flag(lane) ? columns_of_lane : 0;
  }
};
template <token_format Sums>
using lane_columns_in =
    std::conditional_t<Sums == token_format::blockwise_fp8, fp8_lane_columns, lane_columns>;

/// A unit's data, and whether somebody has looked at it, and where.
template <class X>
struct looked_at {
  typename X::template lanes<vec16> v[unit_accesses];
  bool valid;
  unit_place at;
};

}  // namespace baton::ep::per_rank
