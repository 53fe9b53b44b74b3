// Ending a hang from another thread.
#include "baton/give_up.hpp"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "baton/error.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/exchange_cases.hpp"

namespace baton::test {
namespace {

using std::chrono::milliseconds;

class given_up : public testing::TestWithParam<travel> {
 protected:
  static exchange_case of_two() {
    return travelling(GetParam(), {2, sizes(4, 2, 128, 8), {8, 8}, routing::distinct});
  }
};

INSTANTIATE_TEST_SUITE_P(cpu, given_up,
                         testing::Values(travel::by_expert, travel::in_lines, travel::in_chunks,
                                         travel::by_flags),
                         [](const auto& how) { return name(how.param); });

TEST_P(given_up, who_waits_is_told_for_whom_and_the_next_communicator_works) {
  const auto worlds = world::local(2, device_kind::cpu);
  const exchange_case c = of_two();
  const auto inputs = draw_inputs(c, 4);
  EXPECT_FALSE(give_up(worlds[0]));  // nobody waits
  {
    auto all = make_ranks(worlds, c.config);
    all[0].load(inputs[0]);
    all[0].dispatch();
    std::thread other{[&] {
      while (!give_up(worlds[0])) std::this_thread::sleep_for(milliseconds{1});
    }};
    const auto began = std::chrono::steady_clock::now();
    stuck::details where;
    try {
      worlds[0].synchronize();
    } catch (const stuck& found) {
      where = found.where;
    }
    other.join();
    EXPECT_EQ(where.rank, 0);
    EXPECT_EQ(where.peer, 1);
    EXPECT_GT(where.waited_ns, 0u);
    EXPECT_LT(std::chrono::steady_clock::now() - began, worlds[0].deadline() / 2);
  }
  auto again = make_ranks(worlds, c.config);
  EXPECT_FALSE(give_up(worlds[0]));
  for (std::size_t r = 0; r < again.size(); ++r) again[r].load(inputs[r]);
  for (auto& rank : again) rank.dispatch();
  for (const world& w : worlds) EXPECT_NO_THROW(w.synchronize());
}

TEST(given_up_meetings, who_waits_for_ranks_to_come_is_told_for_which) {
  const auto worlds = world::local(2, device_kind::cpu);
  std::atomic<bool> waits{true};
  std::string thrown;
  const auto began = std::chrono::steady_clock::now();
  std::thread alone{[&] {
    try {
      expert_parallel::create(worlds[0], sizes(4, 2, 128, 8));
    } catch (const transport_error& e) {
      thrown = e.what();
    }
    waits.store(false);
  }};
  while (waits.load()) {
    give_up_meetings();
    std::this_thread::sleep_for(milliseconds{1});
  }
  alone.join();
  EXPECT_LT(std::chrono::steady_clock::now() - began, worlds[0].deadline() / 2);
  EXPECT_TRUE(says(thrown, "rank 0 of 2 waited ")) << thrown;
  EXPECT_TRUE(says(thrown, "for rank 1 to join a collective call")) << thrown;
  EXPECT_FALSE(says(thrown, fmt::format("waited {} ms", worlds[0].deadline().count()))) << thrown;
}

}  // namespace
}  // namespace baton::test
