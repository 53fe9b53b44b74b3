#pragma once
// The shared memory of a dispatch block.
#include "exec/mbarrier.hpp"
#include "exec/shared_plan.hpp"
#include "kernels/ep/per_rank/params.hpp"
#include "kernels/ep/per_rank/row_index.hpp"

namespace baton::ep::per_rank {

struct dispatch_plan : shared_plan {
  row_index_shape index;
  shared_array<std::uint32_t> bits;
  shared_array<std::int32_t> first_row;
  shared_array<std::uint16_t> ids;
  shared_array<std::int32_t> counts;  // [R]
  shared_array<std::int32_t> sums;    // [max_warps]: rows that each receiving warp has counted
  shared_array<mbarrier> noted;       // all ids are in `bits`
  shared_array<mbarrier> summed;      // `sums` is complete
  shared_array<mbarrier> known;       // rows can be found
  shared_array<std::byte> staging;    // [senders, unit_bytes]: an encoded unit, before it is cut into lines

  constexpr dispatch_plan(const shape& s, int senders)
      : index{s},
        bits{take<std::uint32_t>(s.max_local_experts() * index.words, 16)},
        first_row{take<std::int32_t>(s.max_local_experts() * index.words, 16)},
        ids{take<std::uint16_t>(s.num_ranks * index.id_stride, 16)},
        counts{take<std::int32_t>(max_ranks)},
        sums{take<std::int32_t>(max_warps)},
        noted{take<mbarrier>(1)},
        summed{take<mbarrier>(1)},
        known{take<mbarrier>(1)},
        staging{take<std::byte>(senders * unit_bytes, 16)} {}

  template <class X>
  BATON_FN row_index rows(X& x, const dispatch_params& p) const {
    return {p.s, p.window, index, bits(x), first_row(x), ids(x), counts(x)};
  }
};

}  // namespace baton::ep::per_rank
