// Replicas of experts and where they are put: against what every placement there is would give, and with a real router's loads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <set>

#include "baton/error.hpp"
#include "baton/expert_parallel.hpp"
#include "baton/expert_placement.hpp"
#include "tests/cpu/says.hpp"
#include "tests/cpu/tiny_moe.hpp"

namespace baton::test {
namespace {

using expert_loads = std::vector<std::int64_t>;

double most(const std::vector<double>& of_rank) {
  return *std::max_element(of_rank.begin(), of_rank.end());
}
double mean_load(const expert_loads& loads, int ranks) {
  return static_cast<double>(std::accumulate(loads.begin(), loads.end(), std::int64_t{0})) / ranks;
}

/// What is wrong with the tables; empty if nothing.
std::string fault_of(const expert_placement& p, std::size_t logical, int ranks, int physical) {
  const auto wide = static_cast<std::size_t>(p.max_replicas);
  if (p.num_ranks != ranks || p.num_physical() != physical || p.replica_counts.size() != logical)
    return "sizes";
  if (p.max_replicas != std::min(ranks, physical - static_cast<int>(logical) + 1)) return "max_replicas";
  std::set<std::int32_t> listed;
  for (std::size_t e = 0; e < logical; ++e) {
    const std::int32_t* row = p.logical_to_physical.data() + e * wide;
    const auto count = static_cast<std::size_t>(p.replica_counts[e]);
    if (count < 1 || count > wide || !std::is_sorted(row, row + count)) return "a row";
    for (std::size_t i = 0; i < wide; ++i) {
      if ((i < count) != (row[i] >= 0)) return "what lies behind a row";
      if (i >= count) continue;
      if (row[i] >= physical || !listed.insert(row[i]).second) return "a physical expert";
      if (p.physical_to_logical[static_cast<std::size_t>(row[i])] != static_cast<std::int32_t>(e))
        return "the way back";
    }
  }
  return static_cast<int>(listed.size()) == physical ? "" : "a physical expert of nobody";
}

/// The least that the busiest rank can have: every way to fill the physical experts is tried.
double least_of_all(const expert_loads& loads, int ranks, int physical) {
  const auto logical = static_cast<int>(loads.size());
  std::vector<int> of_slot(static_cast<std::size_t>(physical), 0);
  double least = std::numeric_limits<double>::max();
  for (;;) {
    std::vector<int> counts(loads.size(), 0);
    for (const int e : of_slot) ++counts[static_cast<std::size_t>(e)];
    if (std::find(counts.begin(), counts.end(), 0) == counts.end()) {
      double busiest = 0;
      for (int r = 0; r < ranks; ++r) {
        double load = 0;
        const expert_range own = experts_of_rank(physical, ranks, r);
        for (int s = own.first; s < own.first + own.count; ++s) {
          const auto e = static_cast<std::size_t>(of_slot[static_cast<std::size_t>(s)]);
          load += static_cast<double>(loads[e]) / counts[e];
        }
        busiest = std::max(busiest, load);
      }
      least = std::min(least, busiest);
    }
    auto at = of_slot.begin();
    while (at != of_slot.end() && ++*at == logical) *at++ = 0;
    if (at == of_slot.end()) return least;
  }
}

expert_loads draw_loads(std::mt19937_64& random, int logical) {
  expert_loads loads(static_cast<std::size_t>(logical));
  for (auto& load : loads)
    load = static_cast<std::int64_t>(std::uint64_t{1} << random() % 12) *
           static_cast<std::int64_t>(random() % 4);
  return loads;
}

constexpr double rounding = 1 + 1e-9;  // some 1000 additions of doubles

TEST(expert_placement, tables_name_every_physical_expert_once_and_agree_both_ways) {
  std::mt19937_64 random{1};
  for (int i = 0; i < 300; ++i) {
    const int ranks = 1 + static_cast<int>(random() % 8), logical = 1 + static_cast<int>(random() % 40);
    const int least = std::max(ranks, logical), room = logical * ranks - least;
    const int physical =
        least + (room > 0 ? static_cast<int>(random() % static_cast<unsigned>(room + 1)) : 0);
    const expert_placement p = place_experts(draw_loads(random, logical), ranks, physical);
    EXPECT_EQ(fault_of(p, static_cast<std::size_t>(logical), ranks, physical), "")
        << logical << " on " << ranks << " in " << physical;
  }
}

TEST(expert_placement, no_rank_has_more_than_the_guarantee_says) {
  std::mt19937_64 random{2};
  for (int i = 0; i < 2000; ++i) {
    const int ranks = 2 + static_cast<int>(random() % 7), logical = ranks + static_cast<int>(random() % 60);
    const int physical = logical + static_cast<int>(random() % static_cast<unsigned>(logical));
    const expert_loads loads = draw_loads(random, logical);
    const expert_placement p = place_experts(loads, ranks, physical);
    const double mean = mean_load(loads, ranks), busiest = most(loads_of_ranks(p, loads));
    double largest = 0;
    for (std::size_t e = 0; e < loads.size(); ++e)
      largest = std::max(largest, static_cast<double>(loads[e]) / p.replica_counts[e]);
    EXPECT_LE(busiest, (mean + (1 - 1.0 / ranks) * largest) * rounding);
    if (physical > logical) EXPECT_LE(busiest, mean * (1 + (ranks - 1.0) / (physical - logical)) * rounding);
  }
}

TEST(expert_placement, small_cases_are_within_the_guarantee_of_the_best_of_all_placements) {
  std::mt19937_64 random{3};
  double worst = 1;
  for (int i = 0; i < 150; ++i) {
    const int ranks = 2 + static_cast<int>(random() % 2), logical = 2 + static_cast<int>(random() % 3);
    const int physical =
        std::min({logical * ranks, std::max(ranks, logical) + static_cast<int>(random() % 4), 7});
    const expert_loads loads = draw_loads(random, logical);
    const double best = least_of_all(loads, ranks, physical),
                 ours = most(loads_of_ranks(place_experts(loads, ranks, physical), loads));
    EXPECT_GE(ours, best / rounding);
    EXPECT_LE(ours, best * (2 - 1.0 / ranks) * rounding);
    if (best > 0) worst = std::max(worst, ours / best);
  }
  RecordProperty("worst", std::to_string(worst));
}

TEST(expert_placement, an_expert_that_has_all_the_load_is_on_every_rank) {
  const expert_loads loads{0, 0, 900, 0, 0, 0};
  const expert_placement p = place_experts(loads, 3, 9);
  EXPECT_EQ(p.replica_counts[2], 3);
  EXPECT_EQ(loads_of_ranks(p, loads), (std::vector<double>{300, 300, 300}));
}

TEST(expert_placement, equal_loads_and_none_are_placed_evenly) {
  for (const std::int64_t load : {0, 7}) {
    const expert_loads loads(16, load);
    const expert_placement p = place_experts(loads, 4, 32);
    EXPECT_EQ(p.replica_counts, std::vector<std::int32_t>(16, 2));
    EXPECT_EQ(loads_of_ranks(p, loads), std::vector<double>(4, 4.0 * static_cast<double>(load)));
  }
}

TEST(expert_placement, replicas_of_an_expert_are_on_ranks_of_their_own) {
  std::mt19937_64 random{4};
  for (int i = 0; i < 200; ++i) {
    const int ranks = 2 + static_cast<int>(random() % 7), logical = 4 * ranks;
    const expert_loads loads = draw_loads(random, logical);
    const expert_placement p = place_experts(loads, ranks, logical + ranks);
    for (int r = 0; r < ranks; ++r) {
      const expert_range own = experts_of_rank(p.num_physical(), ranks, r);
      const auto first = p.physical_to_logical.begin() + own.first;
      EXPECT_EQ(std::set<std::int32_t>(first, first + own.count).size(), static_cast<std::size_t>(own.count))
          << "rank " << r << ", case " << i;
    }
  }
}

TEST(expert_placement, loads_of_logical_experts_are_sums_over_their_replicas) {
  const expert_placement p = place_experts(expert_loads{5, 1, 1}, 2, 4);
  ASSERT_EQ(p.replica_counts, (std::vector<std::int32_t>{2, 1, 1}));
  expert_loads physical(4), logical(3, 0);
  for (std::size_t e = 0; e < 4; ++e) {
    physical[e] = std::int64_t{1} << (10 * e);
    logical[static_cast<std::size_t>(p.physical_to_logical[e])] += physical[e];
  }
  EXPECT_EQ(logical_loads(p, physical), logical);
}

TEST(expert_placement, a_rank_that_has_replicas_lists_no_others_and_keeps_all_where_it_has_none) {
  std::mt19937_64 random{5};
  const expert_loads loads = draw_loads(random, 12);
  const expert_placement p = place_experts(loads, 3, 20);
  for (int rank = 0; rank < 3; ++rank) {
    const replica_tables t = nearest_replicas(p, rank);
    const expert_range own = experts_of_rank(20, 3, rank);
    for (std::size_t e = 0; e < 12; ++e) {
      const std::size_t first = e * static_cast<std::size_t>(p.max_replicas);
      std::vector<std::int32_t> here, all, listed;
      for (std::size_t i = first; i < first + static_cast<std::size_t>(p.max_replicas); ++i) {
        const std::int32_t at = p.logical_to_physical[i];
        if (at >= 0) all.push_back(at);
        if (at >= own.first && at < own.first + own.count) here.push_back(at);
        if (static_cast<std::int32_t>(i - first) < t.replica_counts[e])
          listed.push_back(t.logical_to_physical[i]);
      }
      EXPECT_EQ(listed, here.empty() ? all : here) << "expert " << e << ", rank " << rank;
    }
  }
}

TEST(expert_placement, of_ranks_that_are_left_out_no_replica_is_listed) {
  std::mt19937_64 random{6};
  const expert_placement p = place_experts(draw_loads(random, 12), 4, 18);
  const auto home_of = [](std::int32_t at) {
    int r = 0;
    for (expert_range own = experts_of_rank(18, 4, 0); at >= own.first + own.count;
         own = experts_of_rank(18, 4, r))
      ++r;
    return r;
  };
  for (std::uint32_t active = 0; active < 16; ++active) {
    const replica_tables t = active_replicas(p, active);
    for (std::size_t e = 0; e < 12; ++e) {
      const std::size_t first = e * static_cast<std::size_t>(p.max_replicas);
      std::vector<std::int32_t> wanted, listed;
      for (int i = 0; i < p.replica_counts[e]; ++i) {
        const std::int32_t at = p.logical_to_physical[first + static_cast<std::size_t>(i)];
        if ((active >> home_of(at) & 1) != 0) wanted.push_back(at);
      }
      for (int i = 0; i < t.replica_counts[e]; ++i)
        listed.push_back(t.logical_to_physical[first + static_cast<std::size_t>(i)]);
      EXPECT_EQ(listed, wanted) << "expert " << e << ", ranks " << active;
    }
  }
  EXPECT_TRUE(says(message_of<invalid_argument>([&] { active_replicas(p, 0b10000); }), "active_ranks: 0x10"));
}

TEST(expert_placement, a_rank_by_itself_has_its_own_experts_from_0_and_no_others) {
  const replica_tables first = own_experts(5, 2, 0), second = own_experts(5, 2, 1);
  EXPECT_EQ(first.replica_counts, (std::vector<std::int32_t>{1, 1, 1, 0, 0}));
  EXPECT_EQ(first.logical_to_physical, (std::vector<std::int32_t>{0, 1, 2, -1, -1}));
  EXPECT_EQ(second.replica_counts, (std::vector<std::int32_t>{0, 0, 0, 1, 1}));
  EXPECT_EQ(second.logical_to_physical, (std::vector<std::int32_t>{-1, -1, -1, 0, 1}));
  EXPECT_TRUE(test::says(test::message_of<invalid_argument>([] { own_experts(3, 4, 0); }),
                         "num_experts: 3 is outside [4, 1024]"));
  EXPECT_TRUE(test::says(test::message_of<invalid_argument>([] { own_experts(8, 2, 2); }),
                         "rank: 2 is outside [0, 2)"));
  EXPECT_TRUE(test::says(test::message_of<invalid_argument>([] { own_experts(8, 0, 0); }), "num_ranks: 0"));
}

TEST(expert_placement, sizes_and_loads_that_cannot_be_are_refused_by_name) {
  const auto refused = [](const expert_loads& loads, int ranks, int physical) {
    return message_of<invalid_argument>([&] { place_experts(loads, ranks, physical); });
  };
  EXPECT_TRUE(says(refused({}, 2, 4), "loads: empty"));
  EXPECT_TRUE(says(refused({1, 2}, 0, 4), "num_ranks: 0"));
  EXPECT_TRUE(says(refused({1, 2}, 33, 33), "num_ranks: 33"));
  EXPECT_TRUE(says(refused({1, 2, 3}, 2, 2), "num_physical: 2", "at least 3, and at most 6"));
  EXPECT_TRUE(says(refused({1, 2}, 2, 5), "num_physical: 5", "at most 4"));
  EXPECT_TRUE(says(refused(expert_loads(600, 1), 2, 1025), "num_physical: 1025", "at most 1024"));
  EXPECT_TRUE(says(refused({1, -2}, 2, 2), "loads[1]: -2 is negative"));
  const expert_placement p = place_experts(expert_loads{1, 2}, 2, 3);
  EXPECT_TRUE(
      says(message_of<invalid_argument>([&] { logical_loads(p, expert_loads{1}); }), "physical_loads: 1"));
  EXPECT_TRUE(says(message_of<invalid_argument>([&] { loads_of_ranks(p, expert_loads{1}); }), "loads: 1"));
  EXPECT_TRUE(says(message_of<invalid_argument>([&] { nearest_replicas(p, 2); }), "rank"));
}

TEST(expert_placement, thirty_two_ranks_may_all_take_part) {
  const expert_placement p = place_experts(expert_loads(32, 1), 32, 64);
  const replica_tables all = active_replicas(p, 0xffffffffu), but_the_last = active_replicas(p, 0x7fffffffu);
  EXPECT_EQ(std::accumulate(all.replica_counts.begin(), all.replica_counts.end(), 0), 64);
  EXPECT_EQ(std::accumulate(but_the_last.replica_counts.begin(), but_the_last.replica_counts.end(), 0), 62);
}

TEST(expert_placement, tables_that_contradict_each_other_are_refused_by_every_call_that_takes_them) {
  const auto refused = [](auto change) {
    expert_placement p = place_experts(expert_loads{5, 2, 2}, 2, 4);
    change(p);
    const expert_loads physical(p.physical_to_logical.size(), 1), logical(p.replica_counts.size(), 1);
    const std::string why = message_of<invalid_argument>([&] { loads_of_ranks(p, logical); });
    EXPECT_EQ(message_of<invalid_argument>([&] { logical_loads(p, physical); }), why);
    EXPECT_EQ(message_of<invalid_argument>([&] { nearest_replicas(p, 0); }), why);
    EXPECT_EQ(message_of<invalid_argument>([&] { active_replicas(p, 1); }), why);
    return why;
  };
  EXPECT_EQ(refused([](expert_placement& p) { p.physical_to_logical[2] = 3; }),
            "placement.physical_to_logical[2]: 3 is outside [0, 3)");
  EXPECT_EQ(refused([](expert_placement& p) { p.physical_to_logical[0] = -1; }),
            "placement.physical_to_logical[0]: -1 is outside [0, 3)");
  EXPECT_EQ(refused([](expert_placement& p) { p.replica_counts[1] = 1 << 30; }),
            "placement.replica_counts[1]: 1073741824 is outside [1, 2]");
  EXPECT_EQ(refused([](expert_placement& p) { p.replica_counts[0] = 0; }),
            "placement.replica_counts[0]: 0 is outside [1, 2]");
  EXPECT_EQ(
      refused([](expert_placement& p) { p.logical_to_physical.resize(4); }),
      "placement.logical_to_physical: 4 entries, expected max_replicas for each of 3 replica_counts, 6");
  EXPECT_EQ(refused([](expert_placement& p) { p.num_ranks = 40; }),
            "placement.num_ranks: 40 is outside [1, 32]");
  EXPECT_EQ(refused([](expert_placement& p) { p.max_replicas = 3; }),
            "placement.max_replicas: 3 is outside [1, 2]");
}

/// 32,768 tokens of held-out text for each layer of the small model.
TEST(expert_placement, a_real_routers_loads_become_even_with_a_quarter_more_experts) {
  const auto trace = model::safetensors_file::open(tiny_moe_folder() / "routing.safetensors");
  for (int layer = 0; layer < 3; ++layer) {
    const auto bytes = bytes_of(trace.at("layers." + std::to_string(layer) + ".topk_ids"));
    expert_loads loads(64, 0);
    for (std::size_t i = 0; i < bytes.size(); i += 2) {
      std::int16_t id = 0;
      std::memcpy(&id, &bytes[i], 2);
      ++loads[static_cast<std::size_t>(id)];
    }
    const double mean = mean_load(loads, 8);
    std::vector<double> before(8, 0.0);
    for (std::size_t e = 0; e < 64; ++e) before[e / 8] += static_cast<double>(loads[e]);
    const double after = most(loads_of_ranks(place_experts(loads, 8, 80), loads));
    RecordProperty("layer_" + std::to_string(layer),
                   std::to_string(most(before) / mean) + " -> " + std::to_string(after / mean));
    EXPECT_LT(after, 1.02 * mean) << "layer " << layer << ", " << most(before) / mean << " without";
    EXPECT_GT(most(before), 1.1 * mean);
  }
}

}  // namespace
}  // namespace baton::test
