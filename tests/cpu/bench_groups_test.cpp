// The benchmark of p2p groups: ranks that are processes, as a launcher starts them.
#include "cli/commands/bench_groups.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "baton/error.hpp"
#include "tests/cpu/says.hpp"
#include "tests/cpu/temporary_folder.hpp"
#include "tests/support/command_lines.hpp"
#include "tests/support/forked_ranks.hpp"
#include "tests/support/json_lines.hpp"

namespace baton::cli {
namespace {

using test::message_of;
using test::says;

bench_groups_options few_tokens() {
  bench_groups_options o;
  o.device = device_kind::cpu;
  o.tokens = {3};
  o.hidden = 64;
  o.top_k = 2;
  o.experts = 6;
  o.repeats = 2;
  o.rounds = 2;
  return o;
}

/// What each rank says; as exit codes what the benchmark returned.
std::vector<std::string> of_ranks(int num_ranks, const bench_groups_options& o) {
  const test::temporary_folder folder;
  const std::string run = test::unique_name();
  const auto path = [&](int rank) { return (folder / ("rank-" + std::to_string(rank))).string(); };
  std::vector<int> ranks(static_cast<std::size_t>(num_ranks));
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto results = test::in_processes(ranks, [&](int rank) {
    test::set_launch_environment(rank, num_ranks, run);
    std::ostringstream out;
    const int code = run_bench_groups(o, out);
    test::write_file(path(rank), out.str());
    return code == 0;
  });
  std::vector<std::string> said;
  for (const int rank : ranks) {
    const test::rank_result& result = results[static_cast<std::size_t>(rank)];
    EXPECT_EQ(result.exit_code, 0) << "rank " << rank << ": " << result.thrown;
    said.push_back(test::read_file(path(rank)));
  }
  return said;
}
std::vector<std::string> of_three_ranks(const bench_groups_options& o) {
  return of_ranks(3, o);
}

TEST(bench_groups, each_group_size_is_checked_timed_and_told_by_rank_0_alone) {
  bench_groups_options o = few_tokens();
  o.group_sizes = {3, 2, 1};
  o.json = true;
  const std::vector<std::string> said = of_three_ranks(o);
  const nlohmann::json j = test::json_lines(said.at(0)).at(0);
  EXPECT_EQ(j["schema"], "baton.bench.groups/1");
  EXPECT_EQ(j["ranks"], 3);
  EXPECT_EQ(j["checked"], true);
  EXPECT_EQ(j["same_bits"], true);
  EXPECT_EQ(j["bytes_to_each_rank"], (std::vector<int>{2 * 128, 2 * 128}));
  EXPECT_EQ(j["groups"].size(), 3u);
  for (const auto& group : j["groups"]) EXPECT_EQ(group["round_samples_us"].size(), 2u);
  EXPECT_TRUE(j["why_no_all_to_all"].is_string()) << "there is none on the CPU";
  EXPECT_EQ(said.at(1) + said.at(2), "");
}

TEST(bench_groups, a_table_has_a_line_for_stores_for_puts_and_for_what_is_not_beside_them) {
  const std::string table = of_three_ranks(few_tokens()).at(0);
  EXPECT_TRUE(says(table, "3 ranks, a process each, on the CPU", "groups of 3: stores",
                   "groups of 1: puts between them", "no all-to-all beside: "))
      << table;
}

TEST(bench_groups, layout_per_rank_is_told_with_how_its_tokens_travel_and_fewer_bytes) {
  bench_groups_options o = few_tokens();
  o.layout = ep_layout::per_rank;
  o.experts = 3;  // one a rank
  o.json = true;
  const nlohmann::json j = test::json_lines(of_three_ranks(o).at(0)).at(0);
  EXPECT_EQ(j["layout"], "per_rank");
  EXPECT_EQ(j["checked"], true);
  EXPECT_EQ(j["same_bits"], true);
  EXPECT_EQ(j["groups"][0]["transfer"], "lines");
  EXPECT_EQ(j["groups"][1]["transfer"], "chunks");
  EXPECT_EQ(j["bytes_to_each_rank"], (std::vector<int>{2 * 128, 2 * 128})) << "two of three tokens";
}

/// One of 15 ways to list four of six experts has none of a rank's two, so that 9.3 of ten tokens come; with repeats one of 5,
/// and 8 came.
TEST(bench_groups, a_token_s_experts_are_different_ones_where_bytes_are_counted) {
  bench_groups_options o = few_tokens();
  o.layout = ep_layout::per_rank;
  o.tokens = {10};
  o.top_k = 4;
  o.group_sizes = {3};
  o.json = true;
  const nlohmann::json j = test::json_lines(of_three_ranks(o).at(0)).at(0);
  EXPECT_EQ(j["bytes_to_each_rank"], (std::vector<int>{10 * 128, 10 * 128}));
}

TEST(bench_groups, of_more_ranks_than_a_group_may_have_the_largest_group_stands_in_for_all) {
  bench_groups_options o = few_tokens();
  o.experts = 9;
  o.repeats = o.rounds = 1;
  o.json = true;
  const nlohmann::json j = test::json_lines(of_ranks(9, o).at(0)).at(0);
  EXPECT_EQ(j["checked"], true);
  EXPECT_EQ(j["same_bits"], true);
  ASSERT_EQ(j["groups"].size(), 2u);
  EXPECT_EQ(j["groups"][0]["p2p_group_size"], 8);
  EXPECT_EQ(j["groups"][1]["p2p_group_size"], 1);
}

/// In one group they are one, and told once.
TEST(bench_groups, two_levels_are_checked_and_timed_beside_one_where_there_are_several_groups) {
  bench_groups_options o = few_tokens();
  o.layout = ep_layout::per_rank;
  o.top_k = 4;
  o.group_sizes = {4, 2, 1};
  o.levels = {ep_levels::one, ep_levels::two};
  o.json = true;
  const nlohmann::json j = test::json_lines(of_ranks(4, o).at(0)).at(0);
  EXPECT_EQ(j["checked"], true);
  EXPECT_EQ(j["same_bits"], true);
  std::vector<std::string> told;
  for (const auto& group : j["groups"]) {
    told.push_back(std::to_string(group["p2p_group_size"].get<int>()) + " " +
                   group["levels"].get<std::string>());
    EXPECT_EQ(group["round_samples_us"].size(), 2u);
  }
  EXPECT_EQ(told, (std::vector<std::string>{"4 one", "2 one", "2 two", "1 one", "1 two"}));
  o.json = false;
  o.group_sizes = {2};
  const std::string table = of_ranks(4, o).at(0);
  EXPECT_TRUE(says(table, "groups of 2: puts between them", "groups of 2: puts, two levels")) << table;
}

TEST(bench_groups, no_size_means_all_ranks) {
  bench_groups_options o = few_tokens();
  o.group_sizes = {0};
  const std::string table = of_three_ranks(o).at(0);
  EXPECT_TRUE(says(table, "groups of 3: stores")) << table;
}

TEST(bench_groups, counts_that_are_none_and_groups_of_more_than_the_ranks_are_refused) {
  const auto refusal = [](auto change) {
    bench_groups_options o = few_tokens();
    change(o);
    std::ostringstream out;
    return message_of<invalid_argument>([&] {
      ::setenv("RANK", "0", 1);
      ::setenv("WORLD_SIZE", "1", 1);
      run_bench_groups(o, out);
    });
  };
  EXPECT_EQ(refusal([](bench_groups_options& o) { o.rounds = 0; }), "--rounds: 0 is not from 1 to 128");
  EXPECT_EQ(refusal([](bench_groups_options& o) { o.group_sizes = {2}; }),
            "--group-size: 2 is outside [1, 1], the ranks; 0 means the ranks of a host");
  ::unsetenv("RANK");
  ::unsetenv("WORLD_SIZE");
}

}  // namespace
}  // namespace baton::cli
