#include "sim/check/allocations.hpp"

#include <algorithm>

namespace baton::check {

std::size_t allocations::begun(std::uintptr_t address) const {
  const auto after = std::upper_bound(all_.begin(), all_.end(), address,
                                      [](std::uintptr_t at, const allocation& a) { return at < a.first; });
  return static_cast<std::size_t>(after - all_.begin());
}

void allocations::add(const void* first, std::size_t bytes, int rank, int block) {
  if (holding(first, bytes) != nullptr) return;  // a part of one is named
  const auto at = reinterpret_cast<std::uintptr_t>(first);
  all_.insert(all_.begin() + static_cast<std::ptrdiff_t>(begun(at)), {at, at + bytes, rank, block});
}

const allocation* allocations::holding(const void* first, std::size_t bytes) const {
  const auto at = reinterpret_cast<std::uintptr_t>(first);
  const auto holds = [&](const allocation& a) { return a.first <= at && at + bytes <= a.end; };
  if (last_ < all_.size() && holds(all_[last_])) return &all_[last_];
  const std::size_t count = begun(at);
  if (count == 0 || !holds(all_[count - 1])) return nullptr;
  last_ = count - 1;
  return &all_[last_];
}

const allocation* allocations::before(const void* address) const {
  const std::size_t count = begun(reinterpret_cast<std::uintptr_t>(address));
  return count == 0 ? nullptr : &all_[count - 1];
}

}  // namespace baton::check
