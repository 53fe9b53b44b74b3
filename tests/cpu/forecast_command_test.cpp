// `baton forecast`: its table, its JSON, what it refuses, and how far it is off what was measured.
#include "cli/commands/forecast.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "baton/error.hpp"
#include "cli/commands/forecast_measured.hpp"
#include "tests/cpu/says.hpp"
#include "tests/cpu/temporary_folder.hpp"
#include "tests/support/child_program.hpp"
#include "tests/support/json_lines.hpp"

namespace baton::cli {
namespace {

using test::message_of;
using test::says;

forecast_options of_few_ranks() {
  forecast_options o;
  o.ranks = {4, 40};
  o.tokens = {16};
  return o;
}

std::string said_by(const forecast_options& o) {
  std::ostringstream out;
  EXPECT_EQ(run_forecast(o, out), 0);
  return out.str();
}

TEST(forecast_command, a_table_has_a_row_for_each_point_and_says_of_which_there_are_no_kernels) {
  const std::string table = said_by(of_few_ranks());
  EXPECT_TRUE(says(table, "nothing is sent or measured",
                   "Layout per_rank, bf16 out, bf16 back, hidden 7168, top 8, uniform",
                   "Network cards: 50 GB/s, 3 us, one a rank", "     4      4      16     one",
                   "    40      8      16     two", "* There are no kernels for this yet"))
      << table;
  EXPECT_FALSE(says(table, "     4      4      16     two"))
      << "all ranks are one group: the levels are the same";
  std::istringstream lines{table};
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
  forecast_options near = of_few_ranks();
  near.ranks = {8};
  EXPECT_FALSE(says(said_by(near), "no kernels"));
}

TEST(forecast_command, rounds_that_the_library_serves_are_not_marked) {
  const auto is_marked = [](int ranks, int group, ep_layout layout, ep_levels by) {
    forecast_options o = of_few_ranks();
    o.ranks = {ranks};
    o.group_sizes = {group};
    o.layouts = {layout};
    o.levels = {by};
    return says(said_by(o), "no kernels");
  };
  using enum ep_levels;
  EXPECT_FALSE(is_marked(8, 4, ep_layout::per_rank, one));
  EXPECT_FALSE(is_marked(8, 4, ep_layout::per_rank, two));
  EXPECT_FALSE(is_marked(8, 4, ep_layout::per_expert, one));
  EXPECT_TRUE(is_marked(8, 4, ep_layout::per_expert, two));
  EXPECT_TRUE(is_marked(8, 3, ep_layout::per_rank, two)) << "the last group has forwarders for two of three";
  EXPECT_FALSE(is_marked(8, 3, ep_layout::per_rank, one));
  EXPECT_FALSE(is_marked(16, 8, ep_layout::per_rank, two));
  EXPECT_FALSE(is_marked(32, 8, ep_layout::per_expert, one));
  EXPECT_TRUE(is_marked(16, 16, ep_layout::per_rank, one));
  EXPECT_TRUE(is_marked(40, 8, ep_layout::per_rank, one));
}

TEST(forecast_command, json_has_what_was_asked_what_is_sent_and_how_long_it_takes) {
  forecast_options o = of_few_ranks();
  const test::temporary_folder folder;
  o.json = true;
  o.json_path = (folder / "forecast.jsonl").string();
  const std::string said = said_by(o);
  EXPECT_EQ(test::read_file(o.json_path), said);
  const std::vector<nlohmann::json> points = test::json_lines(said);
  ASSERT_EQ(points.size(), 3u);
  const nlohmann::json &near = points[0], &two = points[2];
  EXPECT_EQ(near["schema"], "baton.forecast/1");
  EXPECT_EQ(near["axes"]["ranks"], 4);
  EXPECT_EQ(near["axes"]["p2p_group_size"], 4);
  EXPECT_EQ(near["axes"]["transfer_in_group"], "lines");
  EXPECT_EQ(near["has_kernels"], true);
  EXPECT_EQ(near["dispatch"]["between_groups"]["messages"], 0);
  EXPECT_EQ(two["axes"]["levels"], "two");
  EXPECT_EQ(two["has_kernels"], false);
  EXPECT_GT(two["dispatch"]["between_groups"]["bytes"], 0);
  EXPECT_EQ(two["round_us"],
            two["dispatch"]["slowest_us"].get<double>() + two["combine"]["slowest_us"].get<double>());
}

TEST(forecast_command, points_differ_in_all_that_has_several_values) {
  forecast_options o = of_few_ranks();
  o.ranks = {24};
  o.group_sizes = {0, 1, 8};
  o.layouts = {ep_layout::per_expert, ep_layout::per_rank};
  o.routings = {ep_routing::uniform, ep_routing::zipf};
  o.levels = {ep_levels::one};
  o.json = true;
  const std::vector<nlohmann::json> points = test::json_lines(said_by(o));
  ASSERT_EQ(points.size(), 12u);
  for (std::size_t i = 1; i < points.size(); ++i) EXPECT_NE(points[i]["axes"], points[i - 1]["axes"]);
  const auto slowest = [&](std::size_t i) { return points[i]["round_us"].get<double>(); };
  EXPECT_GT(slowest(1), slowest(0)) << "cards are slower than links";
  EXPECT_GT(slowest(5), slowest(2)) << "one rank has the popular experts";
}

TEST(forecast_command, many_ranks_have_an_expert_each_unless_it_is_said_how_many_there_are) {
  forecast_options o = of_few_ranks();
  o.ranks = {1000};
  o.tokens = {1};
  o.levels = {ep_levels::two};
  o.json = true;
  EXPECT_EQ(test::json_lines(said_by(o)).at(0)["axes"]["experts"], 1000);
}

TEST(forecast_command, what_cannot_be_forecast_is_refused_by_its_option_before_anything_is_said) {
  const auto refusal = [](auto change) {
    forecast_options o = of_few_ranks();
    change(o);
    std::ostringstream out;
    const std::string message = message_of<invalid_argument>([&] { run_forecast(o, out); });
    EXPECT_EQ(out.str(), "");
    return message;
  };
  EXPECT_EQ(refusal([](forecast_options& o) { o.ranks = {4, 2000}; }), "--ranks: 2000 is outside [1, 1024]");
  EXPECT_EQ(refusal([](forecast_options& o) { o.ranks = {-1}; }), "--ranks: -1 is outside [1, 1024]");
  EXPECT_EQ(refusal([](forecast_options& o) { o.experts = 16; }).substr(0, 41),
            "--experts: 16 experts are fewer than 40 r");
  EXPECT_EQ(refusal([](forecast_options& o) { o.group_sizes = {-2}; }),
            "--group-size: -2 is outside [1, 4], the ranks; 0 means all");
  EXPECT_EQ(refusal([](forecast_options& o) { o.links.nic_gb_per_s = 0; }),
            "--nic-gb-per-s: 0 is outside [0.001, 1000000]");
  EXPECT_EQ(refusal([](forecast_options& o) { o.links.ranks_per_nic = 16; }),
            "--ranks-per-nic: 16 does not divide the 8 of a p2p group, which has cards of its own");
  EXPECT_EQ(refusal([](forecast_options& o) {
              o.routings = {ep_routing::all_to_one};
              o.ranks = {64};
            }),
            "--routing all-to-one: rank 0 has 4 experts, fewer than the 8 of a token");
  EXPECT_TRUE(says(refusal([](forecast_options& o) { o.tokens = {0}; }), "--tokens: 0"));
}

/// Rounds of files in docs/results.
measured_rounds rounds_of(const std::vector<std::string>& files, const forecast::link_facts& links = {}) {
  measured_rounds all;
  for (const std::string& file : files) {
    const auto rounds = read_measured_rounds(BATON_SOURCE_DIR "/docs/results/" + file, links);
    all.all.insert(all.all.end(), rounds.all.begin(), rounds.all.end());
  }
  return all;
}

forecast_errors errors_of(const measured_rounds& all) {
  std::ostringstream out;
  bench_report to{false, "", out};
  return compare_with_forecasts(all, to);
}

/// NVSHMEM's puts, which are stores on one host.
forecast::link_facts one_host() {
  forecast::link_facts links;
  links.one_host = true;
  return links;
}

/// What the results' page says, in whole percent.
TEST(forecast_command, measured_rounds_are_as_far_off_as_the_results_say) {
  EXPECT_LT(errors_of(rounds_of({"2026-11-21-first-exchange/bench_ep.jsonl"})).worst_percent, 10.5);
  EXPECT_LT(errors_of(rounds_of({"2026-11-22-by-token/lines-token.jsonl",
                                 "2026-11-22-by-token/lines-expert.jsonl"}))
                .worst_percent,
            11.5);
  EXPECT_LT(errors_of(rounds_of({"2026-11-22-by-token/chunks-token.jsonl",
                                 "2026-11-22-by-token/chunks-expert.jsonl", "2026-11-23-teams/token.jsonl",
                                 "2026-11-23-teams/expert.jsonl"}))
                .worst_percent,
            3.5);
  EXPECT_LT(errors_of(rounds_of({"2026-11-25-beyond/groups-256.jsonl", "2026-11-25-beyond/groups-64.jsonl"},
                                one_host()))
                .worst_percent,
            18.5);
  EXPECT_LT(errors_of(rounds_of({"2026-11-27-beyond/per-expert-64.jsonl"}, one_host())).worst_percent, 11.5);
}

/// Rounds of layout per_rank beyond the group, those whose constants are of it apart: of one token.
measured_rounds beyond_the_group(const std::vector<std::string>& files, bool of_one_token) {
  measured_rounds all = rounds_of(files, one_host());
  std::erase_if(all.all, [&](const measured_round& r) {
    return r.of.asked.groups() == 1 || (r.of.asked.tokens() == 1) != of_one_token;
  });
  return all;
}

TEST(forecast_command, rounds_of_per_rank_beyond_the_group_are_as_far_off_as_the_results_say) {
  const std::vector<std::string> four{"2026-11-27-two-levels/levels-256.jsonl",
                                      "2026-11-27-two-levels/levels-64.jsonl"},
      of_other_machine{"2026-11-27-beyond/per-rank-256.jsonl", "2026-11-27-beyond/per-rank-64.jsonl"};
  EXPECT_LT(errors_of(beyond_the_group(four, true)).worst_percent, 2.5);
  const measured_rounds not_fitted = beyond_the_group(four, false);
  EXPECT_EQ(not_fitted.all.size(), 24u);
  const forecast_errors of_four = errors_of(not_fitted);
  EXPECT_LT(of_four.worst_percent, 9.5);
  EXPECT_LT(of_four.median_percent, 3.5);
  measured_rounds two_gpus = beyond_the_group({"2026-11-27-two-levels/two-64.jsonl"}, false);
  // Two levels in groups of one took other kernels then.
  std::erase_if(two_gpus.all,
                [](const measured_round& r) { return r.of.asked.config.levels == ep_levels::two; });
  EXPECT_EQ(two_gpus.all.size(), 2u);
  EXPECT_LT(errors_of(two_gpus).worst_percent, 2.5);
  EXPECT_LT(errors_of(beyond_the_group(of_other_machine, true)).worst_percent, 15);
  const forecast_errors of_others = errors_of(beyond_the_group(of_other_machine, false));
  EXPECT_LT(of_others.worst_percent, 16.5);
  EXPECT_LT(of_others.median_percent, 5.5);
}

/// No constant is of these.
TEST(forecast_command, rounds_of_later_kernels_are_as_far_off_as_the_results_say) {
  for (const std::string of_day : {"2026-11-28-lost-ranks/", "2026-11-28-beyond-the-group/"}) {
    SCOPED_TRACE(of_day);
    measured_rounds all =
        rounds_of({of_day + "per-rank-256.jsonl", of_day + "per-rank-64.jsonl"}, one_host());
    measured_rounds lines = all;
    std::erase_if(all.all, [](const measured_round& r) { return r.of.asked.groups() == 1; });
    std::erase_if(lines.all, [](const measured_round& r) { return r.of.asked.groups() > 1; });
    EXPECT_EQ(all.all.size(), 28u);
    EXPECT_LT(errors_of(all).worst_percent, 13.5);
    EXPECT_LT(errors_of(all).median_percent, 5.5);
    EXPECT_LT(errors_of(lines).worst_percent, 23);
    EXPECT_LT(errors_of(rounds_of({of_day + "per-expert-64.jsonl"}, one_host())).worst_percent, 13.5);
  }
}

TEST(forecast_command, measured_rounds_of_both_levels_can_be_told_apart) {
  forecast_options o;
  o.measured = BATON_SOURCE_DIR "/docs/results/2026-11-27-two-levels/levels-64.jsonl";
  const std::string table = said_by(o);
  EXPECT_TRUE(says(table, " 128     one  per_rank, chunks", " 128     two  per_rank, chunks")) << table;
  std::istringstream lines{table};
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

std::string refused_file(const std::string& text) {
  const test::temporary_folder folder;
  forecast_options o;
  o.measured = folder / "points.jsonl";
  test::write_file(o.measured, text);
  std::ostringstream out;
  return message_of<bad_file>([&] { run_forecast(o, out); });
}

const std::string axes_of_2 =
    R"("axes": {"ranks": 2, "experts": 8, "top_k": 2, "hidden": 256, "tokens": 4, "format": "bf16"})";

TEST(forecast_command, a_file_that_nobody_measured_is_refused_by_line_and_member) {
  EXPECT_TRUE(says(refused_file("{"), "points.jsonl: line 1"));
  EXPECT_TRUE(says(refused_file(R"({"schema": "other"})"), "line 1", "\"other\"", "baton.bench.ep/2"));
  EXPECT_TRUE(
      says(refused_file(R"({"schema": "baton.bench.ep/2", "checked": true})"), "expected an object `axes`"));
  EXPECT_TRUE(says(refused_file(R"({"schema": "baton.bench.ep/2", "checked": true, )" + axes_of_2 + "}"),
                   "expected a time above 0"));
  EXPECT_TRUE(says(refused_file(R"({"schema": "baton.bench.ep/2", "checked": true, "axes": {"ranks": -3}})"),
                   "axes: ranks: expected a number from 0", "-3"));
  EXPECT_TRUE(
      says(refused_file(R"({"schema": "baton.bench.ep/2", "checked": true, "axes": {"format": "fp9"}})"),
           "\"fp9\" is not one of"));
  EXPECT_TRUE(says(
      refused_file(
          R"({"schema": "baton.bench.ep/2", "checked": true, "axes": {"ranks": 2}, "round_trip": {"median_us": 3}})"),
      "line 1: num_experts"));
  EXPECT_TRUE(says(refused_file(R"({"schema": "baton.bench.groups/1"})"), "expected an array `groups`"));
  EXPECT_TRUE(says(refused_file(""), "no round in it that can be compared", "0 points were left out"));
}

TEST(forecast_command, a_link_that_cannot_be_is_no_fault_of_the_file_of_rounds) {
  const test::temporary_folder folder;
  forecast_options o;
  o.measured = folder / "points.jsonl";
  test::write_file(o.measured, R"({"schema": "baton.bench.ep/1", "checked": true, )" + axes_of_2 +
                                   R"(, "round_trip": {"median_us": 50}})");
  o.links.ranks_per_nic = 0;
  std::ostringstream out;
  EXPECT_EQ(message_of<invalid_argument>([&] { run_forecast(o, out); }),
            "--ranks-per-nic: 0 is outside [1, 1024]");
  o.measured = BATON_SOURCE_DIR "/docs/results/2026-11-27-two-levels/levels-64.jsonl";
  o.links.ranks_per_nic = 4;
  EXPECT_EQ(message_of<invalid_argument>([&] { run_forecast(o, out); }),
            "--ranks-per-nic: 4 does not divide the 2 of a p2p group, which has cards of its own");
  EXPECT_EQ(out.str(), "");
}

TEST(forecast_command, on_one_host_there_are_no_cards) {
  forecast_options o = of_few_ranks();
  o.links.one_host = true;
  EXPECT_TRUE(says(said_by(o), "One host: puts pass them, too"));
  EXPECT_FALSE(says(said_by(o), "cards"));
  o.json = true;
  EXPECT_EQ(test::json_lines(said_by(o)).at(1)["links"]["one_host"], true);
}

TEST(forecast_command, points_that_the_model_knows_nothing_of_are_left_out_and_counted) {
  const std::string good = R"({"schema": "baton.bench.ep/1", "checked": true, )" + axes_of_2 +
                           R"(, "round_trip": {"median_us": 50}})"
                           "\n";
  const test::temporary_folder folder;
  forecast_options o;
  o.measured = folder / "points.jsonl";
  test::write_file(
      o.measured,
      good + R"({"schema": "baton.bench.ep/1", "checked": false, )" + axes_of_2 + "}\n" +
          R"({"schema": "baton.bench.ep/1", "checked": true, "axes": {"num_sms": 24}})"
          "\n"
          R"({"schema": "baton.bench.ep/2", "checked": true, "axes": {"replicas": 2}})"
          "\n"
          R"({"schema": "baton.bench.groups/1", "checked": false, "groups": [{"p2p_group_size": 1}]})"
          "\n"
          R"({"schema": "baton.bench.groups/1", "checked": true, "same_bits": false, "groups": [{}]})"
          "\n");
  EXPECT_TRUE(says(said_by(o), "per_expert", "50.0", "1 rounds: off by", "; 5 points left out"));
  o.json = true;
  const nlohmann::json line = test::json_lines(said_by(o)).at(0);
  EXPECT_EQ(line["schema"], "baton.forecast.measured/1");
  EXPECT_EQ(line["measured_round_us"], 50);
}

}  // namespace
}  // namespace baton::cli
