// The CPU's links: copies between buffers, and a flag that two threads bounce.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstring>
#include <memory>
#include <new>
#include <system_error>
#include <thread>

#include "base/seconds_since.hpp"
#include "baton/error.hpp"
#include "cli/bench/probe/measure.hpp"

namespace baton::probe {
namespace {

using clock = std::chrono::steady_clock;

constexpr int repeats = 7;
constexpr std::uint64_t flag_rounds = 2000;
constexpr int spins_before_yield = 200;  // threads may share one core

using gathering = std::barrier<>;

/// GB/s of this thread in each repeat, all copying at once.
std::vector<double> copy_rate(gathering& together) {
  std::vector<std::byte> from(slice_bytes, std::byte{1}), to(slice_bytes, std::byte{2});
  std::vector<double> samples(repeats);
  for (int i = -1; i < repeats; ++i) {  // the first warms up
    together.arrive_and_wait();
    const auto start = clock::now();
    std::memcpy(to.data(), from.data(), slice_bytes);
    from[static_cast<std::size_t>(i + 1)] = to[slice_bytes - 1];  // the copy cannot be left out
    if (i >= 0)
      samples[static_cast<std::size_t>(i)] = 1e-9 * static_cast<double>(slice_bytes) / seconds_since(start);
  }
  return samples;
}

/// A thread without memory, or one that cannot start, keeps none of the others waiting.
std::vector<std::vector<double>> copy_rates(int num_threads) {
  std::vector<std::vector<double>> samples(static_cast<std::size_t>(num_threads));
  gathering together{num_threads};
  std::atomic<bool> lacks_memory = false;
  const auto measure = [&](std::vector<double>& mine) {
    try {
      mine = copy_rate(together);
    } catch (const std::bad_alloc&) {
      lacks_memory = true;
      together.arrive_and_drop();
    }
  };
  {
    std::vector<std::jthread> threads;
    threads.reserve(samples.size());
    try {
      for (std::vector<double>& mine : samples) threads.emplace_back([&] { measure(mine); });
    } catch (...) {
      for (std::size_t missing = threads.size(); missing < samples.size(); ++missing)
        together.arrive_and_drop();
      throw;
    }
  }
  if (lacks_memory) throw std::bad_alloc{};
  return samples;
}

struct alignas(128) flag_word {
  std::atomic<std::uint64_t> value{0};
};

bool wait_for(const flag_word& flag, std::uint64_t value, std::memory_order how) {
  const auto until = clock::now() + std::chrono::nanoseconds{flag_deadline_ns};
  for (int spins = 1; flag.value.load(how) < value; ++spins) {
    if (spins % spins_before_yield != 0) continue;
    if (clock::now() > until) return false;
    std::this_thread::yield();
  }
  return true;
}

/// Microseconds one way.
double bounce(std::memory_order load, std::memory_order store) {
  auto ping = std::make_unique<flag_word>(), pong = std::make_unique<flag_word>();
  std::atomic<bool> lost = false;
  std::jthread other{[&] {
    for (std::uint64_t i = 1; i <= flag_rounds; ++i) {
      if (!wait_for(*ping, i, load)) return lost.store(true);
      pong->value.store(i, store);
    }
  }};
  const auto start = clock::now();
  for (std::uint64_t i = 1; i <= flag_rounds; ++i) {
    ping->value.store(i, store);
    if (wait_for(*pong, i, load)) continue;
    lost.store(true);
    break;
  }
  const double seconds = seconds_since(start);
  other.join();
  if (lost.load()) {
    stuck::details where;
    where.site = "probe.flag";
    where.waited_ns = flag_deadline_ns;
    throw stuck{"a flag between two threads did not arrive within 2 s: the machine is overloaded; try again",
                where};
  }
  return 1e6 * seconds / (2.0 * static_cast<double>(flag_rounds));
}

spread bounces(std::memory_order load, std::memory_order store) {
  std::vector<double> samples;
  for (int i = 0; i < repeats; ++i) samples.push_back(bounce(load, store));
  return spread_of(std::move(samples));
}

}  // namespace

link_report measure_threads(int num_threads, links_of what) try {
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  link_report report;
  report.between = "threads of this CPU";
  report.method = "memcpy";
  report.bytes_per_peer = slice_bytes;
  for (const std::vector<double>& rates : copy_rates(std::min(num_threads, cores))) {
    report.devices.push_back(static_cast<int>(report.devices.size()));
    report.egress_gb_per_s.push_back(spread_of(rates));
  }
  if (what == links_of::bytes) return report;
  report.flag_us = bounces(std::memory_order_relaxed, std::memory_order_relaxed);
  report.flag_ordered_us = bounces(std::memory_order_acquire, std::memory_order_release);
  return report;
} catch (const std::system_error& e) {
  throw unsupported{
      fmt::format("cannot start a thread to measure with: {}; raise the limits of processes (ulimit -u) or "
                  "memory (ulimit -v)",
                  e.what())};
}

}  // namespace baton::probe
