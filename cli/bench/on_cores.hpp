#pragma once
// Work on the host that takes longer than what is measured, where one thread does it.
#include <algorithm>
#include <cstddef>
#include <future>
#include <thread>
#include <vector>

namespace baton::cli {

/// f(begin, end) for `parts` parts of [0, count) that have about as many each, on as many threads. What one throws is thrown when
/// all have ended; std::system_error where a thread cannot start.
template <class F>
void in_parts(std::size_t count, std::size_t parts, F f) {
  std::vector<std::future<void>> others;
  for (std::size_t i = 1; i < parts; ++i)
    others.push_back(std::async(std::launch::async,
                                [&f, count, parts, i] { f(count * i / parts, count * (i + 1) / parts); }));
  f(std::size_t{0}, count / parts);
  for (std::future<void>& other : others) other.get();
}

/// The same in up to one part for each core that `sharing` callers have between them.
template <class F>
void on_cores(std::size_t count, std::size_t sharing, F f) {
  const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
  const std::size_t most = std::max<std::size_t>(1, count);
  in_parts(count, std::clamp<std::size_t>(cores / std::max<std::size_t>(1, sharing), 1, most), f);
}

}  // namespace baton::cli
