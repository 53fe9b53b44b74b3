#pragma once
// Ids of experts that cannot be, for expert_parallel::check().
#include "exec/exec.hpp"
#include "kernels/ep/shape.hpp"

namespace baton::ep {

/// One lane: `id`, at `position` in topk_idx, cannot be.
template <class X>
BATON_FN void report_bad_id(X& x, device_errors* errors, int position, std::int32_t id) {
  const std::uint64_t bad = static_cast<std::uint64_t>(position) << 32 | static_cast<std::uint32_t>(id);
  x.template fetch_min<order::relaxed, scope::device>(&errors->first_bad_id, bad);
}

}  // namespace baton::ep
