#pragma once
// The rows of many ranges as one sequence: built by every block from what the device says, bounded before it is followed.
#include "exec/collectives.hpp"
#include "exec/exec.hpp"
#include "exec/shared_plan.hpp"

namespace baton::row_formats {

struct range_plan : shared_plan {
  shared_array<std::int32_t> prefix;  // [num + 1]: rows of the ranges before this one
  shared_array<std::int32_t> first;   // [num]: its first row

  constexpr explicit range_plan(int num)
      : prefix{take<std::int32_t>(num + 1)}, first{take<std::int32_t>(num)} {}
};

struct range_table {
  std::int32_t* prefix;  // see range_plan
  std::int32_t* first;
  int num, max_rows;  // num 0: one range, of all rows

  /// All warps of the block; ends with a block barrier.
  template <exec_context X>
  BATON_FN void build(X& x, const std::int32_t* counts, const std::int32_t* firsts) const {
    x.block_each(num, [&](int i) {
      const int begin = firsts == nullptr ? 0 : smaller(larger(x.read(firsts + i), 0), max_rows);
      x.write(first + i, begin);
      const int most =
          smaller(max_rows - begin, 0x7fffffff / num);  // even nonsense adds up to what an int holds
      x.write(prefix + i + 1, smaller(larger(x.read(counts + i), 0), most));
    });
    x.sync_block();
    if (x.warp() == 0) sum_up(x, prefix, num);
    x.sync_block();
  }

  template <class X>
  BATON_FN int rows(X& x) const {
    return num == 0 ? max_rows : smaller(x.read(prefix + num), max_rows);
  }
  /// The nth row of all, 0 <= nth < rows().
  template <class X>
  BATON_FN int at(X& x, int nth) const {
    if (num == 0) return nth;
    const int range = last_not_above(x, prefix, num, nth);
    return x.read(first + range) + nth - x.read(prefix + range);
  }
};

}  // namespace baton::row_formats
