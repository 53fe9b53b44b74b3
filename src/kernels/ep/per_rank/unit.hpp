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

/// A unit's data, and whether somebody has looked at it.
template <class X>
struct looked_at {
  typename X::template lanes<vec16> v[unit_accesses];
  bool valid;
};

}  // namespace baton::ep::per_rank
