#pragma once
// Ids of experts as callers have them, in 32 or 64 bits, and those that cannot be, for expert_parallel::check().
#include "exec/exec.hpp"
#include "kernels/ep/shape.hpp"

namespace baton::ep {

constexpr std::int32_t narrowed(std::int32_t id) {
  return id;
}
/// What 32 bits do not hold becomes the nearest number that they do, which is no expert's either.
constexpr std::int32_t narrowed(std::int64_t id) {
  const auto low = static_cast<std::int32_t>(id), high = static_cast<std::int32_t>(id >> 32);
  return high == low >> 31 ? low : high >> 31 ^ 0x7fffffff;
}

/// The same ids with their width known to f, which gets a pointer.
template <class F>
BATON_FN auto with_width(const topk_ids& ids, F f) {
  return ids.is_wide ? f(static_cast<const std::int64_t*>(ids.data))
                     : f(static_cast<const std::int32_t*>(ids.data));
}

/// One lane: the id at `position`. A pointer is of a kernel that was compiled for the width.
template <class Id, class X>
BATON_FN std::int32_t read_id(X& x, const Id* ids, int position) {
  return narrowed(x.read(ids + position));
}
template <class X>
BATON_FN std::int32_t read_id(X& x, const topk_ids& ids, int position) {
  return with_width(ids, [&](const auto* of_width) { return read_id(x, of_width, position); });
}

/// One lane: `id`, at `position` in topk_idx, cannot be.
template <class X>
BATON_FN void report_bad_id(X& x, device_errors* errors, int position, std::int32_t id) {
  const std::uint64_t bad = static_cast<std::uint64_t>(position) << 32 | static_cast<std::uint32_t>(id);
  x.template fetch_min<order::relaxed, scope::device>(&errors->first_bad_id, bad);
}

}  // namespace baton::ep
