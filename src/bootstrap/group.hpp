#pragma once
// The ranks that do something together, as one of them sees it, and how a failure of one becomes a failure of
// all instead of a wait for a rank that will not come.
#include <chrono>
#include <cstddef>
#include <functional>
#include <type_traits>
#include <vector>

#include "baton/world.hpp"

namespace baton::bootstrap {

inline constexpr int most_ranks = 4096;  // of a world: beyond it, somebody made a mistake

struct group {
  int rank = 0;
  int size = 1;
  all_gather_fn all_gather;  // may be empty when size is 1
  std::chrono::milliseconds deadline{30'000};
};

/// The bytes of all ranks; also without a callback if there is only one.
void gather_bytes(const group& g, const void* mine, void* all, std::size_t bytes);

template <class T>
std::vector<T> gather(const group& g, const T& mine) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(static_cast<std::size_t>(g.size));
  gather_bytes(g, &mine, all.data(), sizeof(T));
  return all;
}

/// Runs `step` on every rank, then throws on all of them if it threw on any: its own error on the rank that
/// failed, the same kind of error naming the lowest failed rank on the others. Collective; `step` must not
/// be.
void together(const group& g, const std::function<void()>& step);

/// All ranks have come this far.
inline void meet(const group& g) {
  gather(g, char{});
}

}  // namespace baton::bootstrap
