// What a warp does between its steps: plain accesses and fences.
#include <fmt/format.h>

#include <exception>

#include "exec/site_name.hpp"
#include "sim/check/execution.hpp"

namespace baton::check {
namespace {

constexpr int most_on_the_way = 100'000;

/// Ends a warp's body after what it did has become a finding.
struct body_ended : std::exception {};

}  // namespace

/// A body that never comes to a step would never end.
void execution::require_progress(int warp) {
  if (++on_the_way_ < most_on_the_way) return;
  shop_.found.add(verdict::too_long,
                  fmt::format("{} made {} plain accesses and fences without an atomic access, a wait or a "
                              "barrier: does it poll plain memory?",
                              name(where(warp)), most_on_the_way));
  throw body_ended{};
}

void execution::require_memory(int warp, const void* first, std::size_t bytes) {
  const position& me = where(warp);
  const allocation* at = shop_.allocated.holding(first, bytes);
  if (at != nullptr && at->block < 0) return;
  if (at != nullptr && reaches(me, scope::cluster, {at->rank, at->block, 0, at->block / program_.cluster_})) {
    if (at->block != me.block) note_access_to(at->block, warp);
    return;
  }
  std::string text = fmt::format("{} accesses {} bytes at {}", name(me), bytes, shop_.names.of(first));
  const allocation* before = shop_.allocated.before(first);
  if (at != nullptr) {
    text += ": of a block outside its cluster";
  } else if (before != nullptr) {
    const std::size_t size = before->end - before->first;
    text += fmt::format(
        ", {} bytes after the beginning of {}, which has {}: allocate() or name() what is to be accessed",
        reinterpret_cast<std::uintptr_t>(first) - before->first,
        shop_.names.of(reinterpret_cast<const void*>(before->first)), size);
  }
  shop_.found.add(verdict::outside_memory, std::move(text));
  throw body_ended{};
}

void execution::fence(int warp, order ordering, scope reach) {
  require_progress(warp);
  warps_[static_cast<std::size_t>(warp)].counted_stores = -1;
  shop_.ram.fence(warp, ordering, reach);
  record_on_the_way({where(warp), verb::fence, ordering, reach});
}

void execution::fence_proxy(int warp, verb what) {
  require_progress(warp);
  const bool is_init = what == verb::fence_mbarrier_init, is_shared = what == verb::fence_proxy_async;
  shop_.ram.fence_proxy(warp, is_init ? fenced::inits : is_shared ? fenced::shared : fenced::global);
  record_on_the_way({where(warp), what});
}

void execution::read(int warp, const void* from, void* to, std::size_t bytes) {
  require_memory(warp, from, bytes);
  require_progress(warp);
  record_on_the_way({where(warp), verb::read, order::relaxed, scope::system, from, bytes});
  shop_.ram.read(warp, from, to, bytes);
}

void execution::write(int warp, void* to, const void* from, std::size_t bytes) {
  require_memory(warp, to, bytes);
  require_progress(warp);
  record_on_the_way({where(warp), verb::write, order::relaxed, scope::system, to, bytes});
  shop_.ram.write(warp, to, from, bytes, steps_ - 1);
}

}  // namespace baton::check
