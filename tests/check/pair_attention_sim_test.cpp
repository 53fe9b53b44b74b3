// The choreography of pair attention on tokens, on the CPU machine: hundreds of schedules, stores delayed, copies in
// pieces; and with planted bugs, each of which some schedule must expose.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <exception>
#include <vector>

#include "checks/machine_names.hpp"
#include "checks/pair_attention_runs.hpp"
#include "exec/site_name.hpp"
#include "sim/context.hpp"

namespace baton::checks {
namespace {

sim::options schedule_of(int seed) {
  sim::options options;
  options.order = seed % 2 == 0 ? sim::schedule::random : sim::schedule::priority;
  options.seed = static_cast<std::uint64_t>(seed);
  options.delay_stores = true;
  return options;
}

/// What went wrong, or nothing.
template <class Shape>
std::string run(int tiles, const sim::options& options, const attention_mutant& m = no_bug) {
  using cells = pair_attention_cells<Shape>;
  std::deque<std::vector<vec16>> memory;
  machine_names names;
  name_pair_attention<Shape>(names, tiles);
  const auto allocate = [&]<class T>(std::size_t count, const char* name) {
    memory.emplace_back((count * sizeof(T) + sizeof(vec16) - 1) / sizeof(vec16));
    auto* first = reinterpret_cast<T*>(memory.back().data());
    names.name(first, name, count);
    return first;
  };
  const cells c = cells::make(tiles, allocate);
  std::string wrong;
  const auto judge = [&](bool holds, const char* text) {
    if (!holds && wrong.empty()) wrong = fmt::format("broken: {}", text);
  };
  stuck_record record{};
  std::uint32_t abort = 0;
  sim::machine machine{1, options};
  sim::grid grid;
  grid.blocks = grid.cluster = 2;
  grid.warps = Shape::loader_warp + 2;
  grid.shared_bytes = cells::shared_bytes(tiles);
  grid.limits = {1'000'000, &abort, &record};
  machine.launch(0, grid, [&](sim::context& base) {
    planted<sim::context> x{base, m.bug, names.of(base.shared(), grid.shared_bytes)};
    run_pair_attention_on_tokens<Shape>(x, c, tiles, judge);
  });
  try {
    machine.run(0);
  } catch (const std::exception& e) {
    if (wrong.empty()) wrong = e.what();
  }
  if (record.complete != 0 && wrong.empty())
    wrong = fmt::format("stuck at {}, block {} warp {} tile {}", name(record.where), record.block,
                        record.warp, record.epoch);
  if (wrong.empty() && !cells::stored(c)) wrong = "the output is not in memory";
  return wrong;
}

template <class Shape>
class pair_attention_sim : public testing::Test {};

// Slots; depth 512 or 256; look-ahead; warps of a role; arrivals of a warp.
using shapes =
    testing::Types<pair_attention_shape<4, true, 0>, pair_attention_shape<4, true, 1, 4, 1>,
                   pair_attention_shape<11, true, 1, 1, 1>, pair_attention_shape<5, true, 2, 1, 1>,
                   pair_attention_shape<8, false, 0>, pair_attention_shape<8, false, 1, 2, 32>,
                   pair_attention_shape<2, false, 1, 1, 1>, pair_attention_shape<12, false, 2, 4, 1>>;
TYPED_TEST_SUITE(pair_attention_sim, shapes);

TYPED_TEST(pair_attention_sim, ends_without_a_stale_token_under_every_schedule_of_one_to_six_tiles) {
  for (int tiles = 1; tiles <= 6; ++tiles)
    for (int seed = 1; seed <= 120; ++seed)
      ASSERT_EQ(run<TypeParam>(tiles, schedule_of(seed)), "") << tiles << " tiles, seed " << seed;
}

TYPED_TEST(pair_attention_sim, waits_documented_as_redundant_are) {
  for (const attention_mutant& m : redundant_waits(TypeParam::look_ahead))
    for (int seed = 1; seed <= 100; ++seed)
      ASSERT_EQ(run<TypeParam>(4, schedule_of(seed), m), "") << m << ", seed " << seed;
}

TYPED_TEST(pair_attention_sim, planted_bugs_are_exposed_by_some_schedule) {
  constexpr int tiles = 4;
  for (const attention_mutant& m : attention_mutants<TypeParam>()) {
    if (!is_a_bug<TypeParam>(m, tiles)) continue;
    int seed = 1;
    while (seed <= 200 && run<TypeParam>(tiles, schedule_of(seed), m).empty()) ++seed;
    EXPECT_LE(seed, 200) << m << " survives";
    testing::Test::RecordProperty(m.name, seed);
  }
}

}  // namespace
}  // namespace baton::checks
