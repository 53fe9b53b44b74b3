// Role pipelines on the CPU machine: items in order under every schedule, one block and two; planted bugs exposed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <exception>

#include "checks/machine_names.hpp"
#include "checks/role_pipeline_runs.hpp"
#include "exec/site_name.hpp"
#include "sim/context.hpp"

namespace baton::checks {
namespace {

template <class Shape>
std::string run(int items, int seed, const pipeline_mutant& m = right_pipeline) {
  sim::options options;
  options.order = seed % 2 == 0 ? sim::schedule::random : sim::schedule::priority;
  options.seed = static_cast<std::uint64_t>(seed);
  options.delay_stores = true;
  std::array<std::uint32_t, Shape::cells> cells{};
  machine_names names;
  names.name(cells.data(), "stage", cells.size());
  name_hand_over<Shape>(names);
  std::string wrong;
  const auto judge = [&](bool holds, const char* text) {
    if (!holds && wrong.empty()) wrong = text;
  };
  stuck_record record{};
  std::uint32_t abort = 0;
  sim::machine machine{1, options};
  sim::grid grid;
  grid.blocks = grid.cluster = Shape::blocks;
  grid.warps = Shape::warps;
  grid.shared_bytes = Shape::shared_bytes;
  grid.limits = {1'000'000, &abort, &record};
  machine.launch(0, grid, [&](sim::context& base) {
    planted<sim::context> x{base, m.bug, names.of(base.shared(), Shape::shared_bytes)};
    run_hand_over<Shape>(x, cells.data(), items, judge);
  });
  try {
    machine.run(0);
  } catch (const std::exception& e) {
    if (wrong.empty()) wrong = e.what();
  }
  if (record.complete != 0 && wrong.empty()) wrong = fmt::format("stuck at {}", name(record.where));
  return wrong;
}

template <class Shape>
class role_pipeline_sim : public testing::Test {};
// Stages, sub-stages, blocks, readers in each.
using hand_overs = testing::Types<hand_over<1, 1, 1, 1>, hand_over<2, 1, 1, 3>, hand_over<3, 2, 1, 2>,
                                  hand_over<1, 1, 2, 2>, hand_over<2, 2, 2, 2>>;
TYPED_TEST_SUITE(role_pipeline_sim, hand_overs);

TYPED_TEST(role_pipeline_sim, items_arrive_in_order_under_every_schedule) {
  for (int items : {1, 2, 7})
    for (int seed = 1; seed <= 100; ++seed)
      ASSERT_EQ(run<TypeParam>(items, seed), "") << items << " items, seed " << seed;
}

TYPED_TEST(role_pipeline_sim, planted_bugs_are_exposed_by_some_schedule) {
  constexpr int items = 7;
  for (const pipeline_mutant& m : pipeline_mutants()) {
    if (!is_a_bug<TypeParam>(m, items) || m.is_race_only) continue;
    int seed = 1;
    while (seed <= 200 && run<TypeParam>(items, seed, m).empty()) ++seed;
    EXPECT_LE(seed, 200) << m << " survives";
  }
}

}  // namespace
}  // namespace baton::checks
