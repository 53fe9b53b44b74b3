#pragma once
// Which pair (local expert, source rank) a received row belongs to, and where it lies: built by every block
// from what dispatch_wait's block 0 left in region A, used by dispatch_wait and combine_async to share rows out
// evenly over warps.
#include "exec/collectives.hpp"
#include "exec/exec.hpp"
#include "kernels/ep/per_expert/shared_plan.hpp"
#include "protocol/ep_local_sync_counters.hpp"

namespace baton::ep {

struct row_place {
  int pair;
  int slot;  // within the pair
  int row;   // in the output
};

struct row_table {
  std::int32_t* prefix;  // see row_table_plan
  std::int32_t* first_row;
  int pairs;

  /// All warps of the block; ends with a block barrier. A pair whose rows would lie outside the output counts as
  /// empty: the rank that sent them misses them. All lanes fetch, so that device memory is waited for once; then warp 0
  /// sums, each lane over neighbouring pairs.
  template <exec_context X>
  BATON_FN void build(X& x, const ep_local_sync_counters& counters, const shape& s) const {
    const int most = s.max_rows();
    x.block_each(pairs, [&](int pair) {
      const int rows = x.read(counters.row_count(pair)), end = x.read(counters.end_row(pair));
      const bool fits = rows >= 0 && rows <= s.max_tokens && end >= rows && end <= most;
      x.write(prefix + pair + 1, fits ? rows : 0);
      x.write(first_row + pair, fits ? end - rows : 0);
    });
    x.sync_block();
    if (x.warp() == 0) sum_up(x, prefix, pairs);
    x.sync_block();
  }

  template <class X>
  BATON_FN int rows(X& x) const {
    return x.read(prefix + pairs);
  }
  template <class X>
  BATON_FN int rows_of(X& x, int pair) const {
    return x.read(prefix + pair + 1) - x.read(prefix + pair);
  }

  /// The place of the index-th received row, 0 <= index < rows().
  template <class X>
  BATON_FN row_place find(X& x, int index) const {
    const int pair = last_not_above(x, prefix, pairs, index), slot = index - x.read(prefix + pair);
    return {pair, slot, x.read(first_row + pair) + slot};
  }
};

}  // namespace baton::ep
