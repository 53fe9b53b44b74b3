// protocol/arrival.hpp on real threads: ThreadSanitizer is silent about the protocol and loud about the mutants.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>

#include "checks/arrival_rounds.hpp"
#include "checks/planted_context.hpp"
#include "sim/threads.hpp"

namespace baton::checks {
namespace {

constexpr int found_a_race = 66;  // ThreadSanitizer's exit status

class heap {
 public:
  template <class T>
  T* allocate(std::size_t count, const std::string& name) {
    static_assert(alignof(T) <= alignof(std::max_align_t));
    blocks_.push_back({std::make_unique<std::byte[]>(count * sizeof(T)), count * sizeof(T), name});
    return reinterpret_cast<T*>(blocks_.back().memory.get());
  }
  std::string name_of(const void* at) const {
    for (const block& b : blocks_)
      if (at >= b.memory.get() && at < b.memory.get() + b.bytes) return b.name;
    return "";
  }

 private:
  struct block {
    std::unique_ptr<std::byte[]> memory;
    std::size_t bytes;
    std::string name;
  };
  std::vector<block> blocks_;
};

/// How many promises were broken.
template <class Policy>
int run_rounds(int ranks, int rounds, unsigned seed, const planted_bug& bug = {}) {
  heap memory;
  const arrival_world w = make_world<Policy>(memory, ranks);
  std::atomic<int> broken{0}, finished{0};
  const promise require = [&](bool holds, const char*) {
    broken.fetch_add(holds ? 0 : 1, std::memory_order_relaxed);
  };
  threads::run({.ranks = ranks, .seed = seed}, [&](threads::context& x) {
    planted<threads::context> mine{x, bug, [&](const void* at) { return memory.name_of(at); }};
    arrival_rank<Policy, planted<threads::context>>{mine, w, require}.run(rounds);
    finished.fetch_add(1, std::memory_order_relaxed);
  });
  return broken + (ranks - finished);
}

template <class Policy>
class arrival_threads : public testing::Test {};
using policies = testing::Types<epoch_arrival, sentinel_arrival>;
class policy_names {
 public:
  template <class Policy>
  static std::string GetName(int) {
    return Policy::restores ? "sentinel" : "epoch";
  }
};
TYPED_TEST_SUITE(arrival_threads, policies, policy_names);

TYPED_TEST(arrival_threads, two_to_four_ranks_a_thousand_rounds_are_clean) {
  for (const int ranks : {2, 3, 4}) {
    EXPECT_EQ(run_rounds<TypeParam>(ranks, 1000, static_cast<unsigned>(ranks)), 0) << ranks << " ranks";
  }
}

template <class Policy>
[[noreturn]] void run_mutant(const planted_bug& bug) {
  run_rounds<Policy>(2, 200, 1, bug);
  std::exit(EXIT_SUCCESS);  // ThreadSanitizer makes this its own status if it has reported anything
}

template <class Policy>
void expect_reported(const planted_bug& bug) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(run_mutant<Policy>(bug), testing::ExitedWithCode(found_a_race), "ThreadSanitizer: data race");
}

TYPED_TEST(arrival_threads, mutant_relaxed_publish_is_reported) {
  expect_reported<TypeParam>({.what = verbs::release_store, .how = change::relaxed});
}

TYPED_TEST(arrival_threads, mutant_relaxed_wait_is_reported) {
  expect_reported<TypeParam>({.what = verbs::wait, .how = change::relaxed});
}

TYPED_TEST(arrival_threads, mutant_payload_read_after_the_combine_is_published_is_reported) {
  expect_reported<TypeParam>({.what = verbs::read, .how = change::late, .cell = "dispatch payload"});
}

TEST(threads_machine, a_wait_that_nobody_ends_gives_up_at_its_deadline) {
  std::uint64_t word = 0;
  std::atomic<int> gave_up{0};
  threads::run({.deadline = std::chrono::milliseconds{20}}, [&](threads::context& x) {
    threads::context::lanes<std::uint64_t*> words{};
    threads::context::lanes<std::uint64_t> seen{};
    words[0] = &word;
    if (!await<epoch_arrival>(x, words, 1, wait_site{.where = "test", .epoch = 1}, seen)) ++gave_up;
  });
  EXPECT_EQ(gave_up, 1);
}

TEST(threads_machine, sync_block_orders_the_warps_of_a_block) {
  constexpr int warps = 3, laps = 200;
  std::array<int, warps> cells{};
  std::atomic<int> wrong{0};
  threads::run({.warps = warps}, [&](threads::context& x) {
    for (int lap = 1; lap <= laps; ++lap) {
      x.write(&cells[static_cast<std::size_t>(x.warp())], lap);
      x.sync_block();
      for (const int& cell : cells) wrong += x.read(&cell) == lap ? 0 : 1;
      x.sync_block();
    }
  });
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace baton::checks
