// What is told of an exchange is what was counted: each number in its place.
#include "cli/commands/exchange_report.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "cli/commands/exchange_summary.hpp"
#include "cli/commands/generate_report.hpp"
#include "cli/view/text.hpp"
#include "tests/support/parsed_json.hpp"

namespace baton::cli {
namespace {

using nlohmann::json;

exchange_statistics counted(const ep_config& config, const std::vector<std::vector<std::int32_t>>& ids) {
  exchange_statistics statistics{config, static_cast<int>(ids.size()), 1};
  std::vector<model::routed_tokens> ranks(ids.size());
  for (std::size_t r = 0; r < ids.size(); ++r) ranks[r].topk_idx = ids[r];
  statistics.count(0, ranks);
  return statistics;
}

ep_config config_of(int experts) {
  ep_config c;
  c.num_experts = experts;
  c.top_k = 1;
  c.hidden = 128;
  c.num_max_tokens_per_rank = 8;
  c.layout = ep_layout::per_expert;
  return c;
}

/// Rank 0 keeps one row and sends two; rank 1 sends three.
exchange_statistics lopsided() {
  return counted(config_of(4), {{0, 2, 3}, {0, 0, 1}});
}

TEST(exchange_report, bytes_and_rows_stand_where_they_went) {
  const json j = statistics_json(lopsided());
  constexpr int message = 2 * 128 + 16, reply = 2 * 128;
  EXPECT_EQ(j["dispatch_bytes"], test::parsed_json("[[272, 544], [816, 0]]"));
  EXPECT_EQ(j["combine_bytes"], test::parsed_json("[[256, 768], [512, 0]]"))
      << "from rank 0 to rank 1: three replies";
  EXPECT_EQ(j["rows_of_ranks"], test::parsed_json("[4, 2]"));
  EXPECT_EQ(j["rows_of_experts"], test::parsed_json("[[3, 1, 1, 1]]"));
  EXPECT_EQ(j["wire_bytes"], 5 * (message + reply));
  EXPECT_EQ(j["local_bytes"], message + reply);
}

TEST(exchange_report, a_ranks_share_is_of_all_rows) {
  const auto lines = rank_load(lopsided(), style::plain());
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_NE(lines[0].find(" 66.7 %  experts 0-1"), std::string::npos) << lines[0];
  EXPECT_NE(lines[1].find(" 33.3 %  experts 2-3"), std::string::npos) << lines[1];
}

TEST(exchange_report, ranks_are_apart_in_the_chart_also_where_a_column_is_several_experts) {
  // Four experts a column; ranks begin at experts 334 and 667, columns 83 and 166 of 250, in the second and third line.
  const auto lines = expert_load(counted(config_of(1000), {{0}, {}, {}}), style::plain());
  ASSERT_EQ(lines.size(), 8u);
  EXPECT_EQ(columns(lines[2]), columns(lines[0]) + 1);
  EXPECT_EQ(columns(lines[4]), columns(lines[0]) + 1);
  EXPECT_EQ(columns(lines[6]), columns(lines[0]) - 6);
}

TEST(exchange_report, a_rank_without_tokens_says_so_to_all_with_layout_per_rank) {
  ep_config c = config_of(4);
  c.layout = ep_layout::per_rank;
  const exchange_statistics statistics = counted(c, {{0}, {}});
  EXPECT_EQ(statistics.traffic().dispatch_bytes(1, 0), 512u) << "four lines of ids";
  EXPECT_EQ(statistics.traffic().combine_bytes(1, 0), 0u);
}

TEST(generate_report, the_rate_is_of_tokens_after_each_sequences_first) {
  const generate_options options;
  std::ostringstream out;
  generate_run run{options, out, style::plain()};
  run.prompts = {{"a", std::nullopt}, {"b", std::nullopt}};
  run.sequences = {{0, {97}, 4, {1, 2, 3, 4}}, {1, {98}, 6, {1, 2, 3, 4, 5, 6}}};
  run.times = {.prompt_tokens = 2, .new_tokens = 10, .prefill_s = 1, .decode_s = 4};
  EXPECT_EQ(result_json(run, {}, {})["tokens_per_second"], 2.0);
}

}  // namespace
}  // namespace baton::cli
