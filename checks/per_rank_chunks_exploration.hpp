#pragma once
// The two kernels of layout per_rank that move chunks, as they are in the library, in every schedule of a tiny case.
#include "checks/exchange_setting.hpp"
#include "kernels/ep/per_rank_chunks/cells.hpp"
#include "sim/check.hpp"

namespace baton::checks {

struct chunks_setting : exchange_setting {
  ep::per_rank_chunks::chunk_settings chunks{};
  std::uint32_t draws =
      0;  // which warp takes which chunk: so many ways, drawn; 0: every order in which warps can take them
  bool all_orders_of_all = false;  // what blocks take of all is never drawn
  std::uint32_t draw = 0;          // the last of them
};

check::result check_per_rank_chunks(chunks_setting e, const check::bounds& limits = {});

/// From the cells of even rounds to those of odd ones.
inline std::int64_t bytes_of_ids(const chunks_setting& e) {
  const ep::shape s = shape_of(e, 0);
  const ep::per_rank_chunks::cells window{s, e.chunks};
  return static_cast<std::int64_t>(window.ids_at(s, 1, 0, 0) - window.ids_at(s, 0, 0, 0));
}

}  // namespace baton::checks
