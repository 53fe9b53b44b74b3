#pragma once
// The shared memory of a dispatch block.
#include "exec/mbarrier.hpp"
#include "exec/shared_plan.hpp"
#include "kernels/ep/per_rank/params.hpp"
#include "kernels/ep/per_rank/row_index.hpp"

namespace baton::ep::per_rank {

/// `rows` and `first_row` lie on 16 bytes, since all before them is of 16. Asked for as an alignment, it makes the compiler take
/// warps of kernels for any number of ranks for parted (check_ptx.py).
struct dispatch_plan : shared_plan {
  row_index_shape index;
  shared_array<std::uint32_t> bits;
  shared_array<std::int32_t> rows;
  shared_array<std::uint32_t> spare;
  shared_array<std::int32_t> first_row;
  shared_array<std::uint16_t> ids;
  shared_array<std::int32_t> counts;  // [R]
  shared_array<mbarrier> noted;       // all ids are in `bits`
  shared_array<mbarrier> known;       // rows can be found
  shared_array<std::byte> staging;    // [senders, unit_bytes]: an encoded unit, before it is cut into lines

  constexpr dispatch_plan(const shape& s, int senders)
      : index{s},
        bits{take<std::uint32_t>(s.max_local_experts() * index.words, 16)},
        rows{take<std::int32_t>(align_up(s.num_pairs(), counts_of_lane))},
        spare{take<std::uint32_t>(max_warps * warp_lanes)},
        first_row{take<std::int32_t>(align_up(s.num_pairs(), counts_of_lane))},
        ids{take<std::uint16_t>(s.num_ranks * index.id_stride, 16)},
        counts{take<std::int32_t>(max_near_ranks)},
        noted{take<mbarrier>(1)},
        known{take<mbarrier>(1)},
        staging{take<std::byte>(senders * unit_bytes, 16)} {}

  /// Of 16 bytes, from `bits` on: `bits`, `rows` and `spare`, which begin as zeros.
  constexpr int zeros() const {
    return (static_cast<int>(spare.offset - bits.offset) / 4 + max_warps * warp_lanes) / 4;
  }

  template <class X, class P>
  BATON_FN row_index<P> find_rows(X& x, const P& p) const {
    return {p, index, bits(x), rows(x), first_row(x), ids(x), counts(x), spare(x)};
  }
};

}  // namespace baton::ep::per_rank
