#pragma once
// The two kernels of layout per_rank, as they are in the library, in every schedule of a tiny case. Kernels begin early: a
// warp's part of one begins when its part of the one before has ended, up to await_dependencies().
#include "checks/exchange_setting.hpp"
#include "kernels/ep/per_rank/cells.hpp"
#include "sim/check.hpp"

namespace baton::checks {

check::result check_per_rank(const exchange_setting& e, check::bounds limits = {});
/// By flags.
check::result check_by_flags(const exchange_setting& e, check::bounds limits = {});

/// From the cells of even rounds to those of odd ones.
template <class Cells = ep::per_rank::cells>
std::int64_t bytes_of_ids(const exchange_setting& e) {
  const ep::shape s = shape_of(e, 0);
  const Cells window{s};
  return static_cast<std::int64_t>(window.ids_at(s, 1, 0, 0) - window.ids_at(s, 0, 0, 0));
}

}  // namespace baton::checks
