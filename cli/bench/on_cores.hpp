#pragma once
// Work on the host that takes longer than what is measured, where one thread does it.
#include <algorithm>
#include <cstddef>
#include <future>
#include <thread>
#include <vector>

namespace baton::cli {

/// f(begin, end) for parts of [0, count) that have about as many each, on as many threads at a time; up to one for each core that
/// `sharing` callers have between them. What one throws is thrown when all have ended.
template <class F>
void on_cores(std::size_t count, std::size_t sharing, F f) {
  const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
  const std::size_t parts =
      std::clamp<std::size_t>(cores / std::max<std::size_t>(1, sharing), 1, std::max<std::size_t>(1, count));
  std::vector<std::future<void>> others;
  for (std::size_t i = 1; i < parts; ++i)
    others.push_back(std::async(std::launch::async,
                                [&f, count, parts, i] { f(count * i / parts, count * (i + 1) / parts); }));
  f(std::size_t{0}, count / parts);
  for (std::future<void>& other : others) other.get();
}

}  // namespace baton::cli
