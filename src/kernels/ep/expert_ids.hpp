#pragma once
// Ids of experts as callers have them, in 32 or 64 bits, of physical or logical experts, and those that cannot be, for
// expert_parallel::check().
#include <limits>

#include "exec/exec.hpp"
#include "kernels/ep/params.hpp"

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

/// What a logical id becomes of which there is no physical one: out of range, and not -1.
inline constexpr std::int32_t no_expert = std::numeric_limits<std::int32_t>::min();

/// One lane: logical ids of these tokens become physical. What the map says is checked before it is followed.
template <int n, class X>
BATON_FN void take_replicas(X& x, const any_ids& ids, const int (&token)[n], std::int32_t (&id)[n]) {
  const expert_map& map = ids.map;
  bool known[n];
  std::int32_t count[n], to[n];
  BATON_UNROLL
  for (int i = 0; i < n; ++i) {
    known[i] = static_cast<std::uint32_t>(id[i]) < static_cast<std::uint32_t>(map.num_logical);
    count[i] = x.read(map.replica_counts + (known[i] ? id[i] : 0));
  }
  BATON_UNROLL
  for (int i = 0; i < n; ++i) {
    if (known[i] && count[i] == 0) id[i] = -1;  // elsewhere
    known[i] = known[i] && count[i] >= 1 && count[i] <= map.max_replicas;
    // At most 1024 rows of 1024.
    const auto turn = static_cast<std::uint32_t>(token[i] + ids.rank),
               replicas = static_cast<std::uint32_t>(known[i] ? count[i] : 1);
    const int first = known[i] ? id[i] * map.max_replicas : 0;
    to[i] = x.read(map.logical_to_physical + first + static_cast<int>(turn % replicas));
  }
  BATON_UNROLL
  for (int i = 0; i < n; ++i) {
    const bool exists =
        known[i] && static_cast<std::uint32_t>(to[i]) < static_cast<std::uint32_t>(ids.num_experts);
    id[i] = id[i] == -1 ? -1 : exists ? to[i] : no_expert;
  }
}
template <class X>
BATON_FN std::int32_t read_id(X& x, const any_ids& ids, int position) {
  std::int32_t id[1] = {read_id(x, ids.given, position)};
  if (ids.map.replica_counts != nullptr) {
    const int token[1] = {ids.by_top_k.quotient(position)};
    take_replicas(x, ids, token, id);
  }
  return id[0];
}

/// One lane: as the caller gave it.
template <class Id, class X>
BATON_FN std::int32_t given_id(X& x, const Id* ids, int position) {
  return read_id(x, ids, position);
}
template <class X>
BATON_FN std::int32_t given_id(X& x, const any_ids& ids, int position) {
  return read_id(x, ids.given, position);
}

/// One lane: `id`, at `position` in topk_idx, cannot be.
template <class X>
BATON_FN void report_bad_id(X& x, device_errors* errors, int position, std::int32_t id) {
  const std::uint64_t bad = static_cast<std::uint64_t>(position) << 32 | static_cast<std::uint32_t>(id);
  x.template fetch_min<order::relaxed, scope::device>(&errors->first_bad_id, bad);
}

}  // namespace baton::ep
