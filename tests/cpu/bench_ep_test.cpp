// The exchange benchmark: inputs, the check before the clock, statistics, and a whole run on the CPU.
#include "cli/commands/bench_ep.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <sstream>

#include "baton/error.hpp"
#include "cli/bench/ep_point.hpp"
#include "tests/cpu/temporary_folder.hpp"
#include "tests/support/json_lines.hpp"
#include "tests/support/parsed_json.hpp"

namespace baton::cli {
namespace {

ep_config small_config(token_format format = token_format::bf16) {
  ep_config c;
  c.num_experts = 10;
  c.top_k = 3;
  c.hidden = 256;
  c.num_max_tokens_per_rank = 20;
  c.format = format;
  c.layout = ep_layout::per_expert;
  return c;
}

/// What identity experts return if every row arrives: bf16 bit for bit.
std::vector<float> combined(const ep_config& c, const rank_inputs& in) {
  std::vector<float> out(in.tokens.size(), 0.0f);
  const auto hidden = static_cast<std::size_t>(c.hidden), top_k = static_cast<std::size_t>(c.top_k);
  for (std::size_t i = 0; i < out.size(); ++i)
    for (std::size_t k = 0; k < top_k; ++k)
      out[i] = std::fma(in.topk_weights[i / hidden * top_k + k], static_cast<float>(in.tokens[i]), out[i]);
  return out;
}

TEST(bench_ep_inputs, a_token_has_distinct_experts_and_weights_that_sum_to_one) {
  const ep_config c = small_config();
  const rank_inputs in = random_inputs(c, 20, 7);
  for (std::size_t t = 0; t < 20; ++t) {
    const std::set<std::int32_t> ids(in.topk_idx.begin() + static_cast<long>(3 * t),
                                     in.topk_idx.begin() + static_cast<long>(3 * t + 3));
    EXPECT_EQ(ids.size(), 3u);
    EXPECT_GE(*ids.begin(), 0);
    EXPECT_LT(*ids.rbegin(), c.num_experts);
    const float sum = in.topk_weights[3 * t] + in.topk_weights[3 * t + 1] + in.topk_weights[3 * t + 2];
    EXPECT_NEAR(sum, 1.0f, 3 * 0x1p-24f);
  }
}

TEST(bench_ep_inputs, seeds_repeat_and_differ) {
  const ep_config c = small_config();
  EXPECT_EQ(random_inputs(c, 20, 7).topk_idx, random_inputs(c, 20, 7).topk_idx);
  EXPECT_NE(random_inputs(c, 20, 7).topk_idx, random_inputs(c, 20, 8).topk_idx);
}

TEST(bench_ep_traffic, every_choice_is_one_row_and_a_message_of_per_expert) {
  const ep_config c = small_config(token_format::blockwise_fp8);
  ep_traffic t{c, 3};
  for (int r = 0; r < 3; ++r) t.count(r, random_inputs(c, 20, 1 + static_cast<std::uint64_t>(r)).topk_idx);
  for (int source = 0; source < 3; ++source) {
    std::uint64_t rows = 0;
    for (int to = 0; to < 3; ++to) {
      rows += t.rows_between(source, to);
      EXPECT_EQ(t.messages_between(source, to), t.rows_between(source, to));
    }
    EXPECT_EQ(rows, 60u);
  }
  EXPECT_EQ(t.row_bytes(), 256u + 8);
  EXPECT_EQ(t.message_bytes(), 256u + 16 + 16);
  EXPECT_EQ(t.reply_bytes(), 512u);
  EXPECT_GE(t.most_rows_received(), 60u) << "the busiest of three ranks has at least the mean";
  EXPECT_EQ(t.most_dispatch_bytes_out(), t.most_dispatch_bytes_of_rows_out());
}

TEST(bench_ep_traffic, narrow_formats_have_their_own_bytes) {
  const auto bytes = [](token_format format) {
    const ep_traffic t{small_config(format), 3};
    return std::pair{t.row_bytes(), t.message_bytes()};
  };
  EXPECT_EQ(bytes(token_format::mxfp8), (std::pair<std::uint64_t, std::uint64_t>{256 + 8, 256 + 16 + 16}));
  EXPECT_EQ(bytes(token_format::mxfp4), (std::pair<std::uint64_t, std::uint64_t>{128 + 8, 128 + 16 + 16}));
  EXPECT_EQ(bytes(token_format::nvfp4), (std::pair<std::uint64_t, std::uint64_t>{128 + 16, 128 + 16 + 16}));
}

TEST(bench_ep_traffic, lines_of_formats_whose_scales_lie_in_the_data_take_less_payload) {
  const auto bytes = [](token_format format) {
    ep_config c = small_config(format);
    c.hidden = 7168;
    c.layout = ep_layout::per_rank;
    c.transfer = ep_transfer::lines;
    return ep_traffic{c, 3}.message_bytes();
  };
  EXPECT_EQ(bytes(token_format::blockwise_fp8), 8u * 1024) << "7168 bytes, 896 in 8 lines";
  EXPECT_EQ(bytes(token_format::mxfp8), 8u * 1024);
  EXPECT_EQ(bytes(token_format::mxfp4), 5u * 1024) << "3584 bytes, 768 in 8 lines";
  EXPECT_EQ(bytes(token_format::nvfp4), 5u * 1024);
}

/// Rows from source to destination as these say: [source, destination].
ep_traffic rows_of(ep_config c, int num_ranks, const std::vector<int>& rows) {
  c.num_experts = num_ranks;
  c.top_k = 1;
  ep_traffic t{c, num_ranks};
  for (int source = 0; source < num_ranks; ++source) {
    std::vector<std::int32_t> ids;
    for (int to = 0; to < num_ranks; ++to)
      ids.insert(ids.end(), static_cast<std::size_t>(rows[static_cast<std::size_t>(source * num_ranks + to)]),
                 to);
    t.count(source, ids);
  }
  return t;
}

TEST(bench_ep_traffic, the_busiest_rank_sends_its_rows_out_and_replies_to_those_it_received) {
  const ep_traffic t = rows_of(small_config(), 3, {7, 1, 2, 40, 8, 3, 5, 6, 9});
  EXPECT_EQ(t.most_dispatch_bytes_out(), 43u * 528) << "source 1: 40 and 3";
  EXPECT_EQ(t.most_rows_received(), 52u) << "rank 0: 7, 40 and 5";
  EXPECT_EQ(t.most_combine_bytes_out(), 45u * 512) << "rank 0, of others' rows: 40 and 5";
}

TEST(bench_ep_point, rates_are_of_the_bytes_of_their_own_direction) {
  ep_point p;
  p.config = small_config(token_format::blockwise_fp8);
  p.moved = {rows_of(p.config, 2, {1, 20, 30, 4})};
  p.split.steps.resize(4);
  p.dispatch.samples_us = {{2, 1}};
  p.combine.samples_us = {{3, 5}};
  const nlohmann::json j = to_json({.push_gb_per_s = 8.64}, p);
  const auto rate = [&](const char* of, const char* what) { return j[of][what].get<double>(); };
  EXPECT_EQ(rate("dispatch_rate", "wire_bytes"), 30 * 288);
  EXPECT_EQ(rate("dispatch_rate", "logical_bytes"), 31 * 264);
  EXPECT_DOUBLE_EQ(rate("dispatch_rate", "wire_gb_per_s"), 4.32) << "8640 bytes in 2 us";
  EXPECT_DOUBLE_EQ(rate("dispatch_rate", "fraction_of_push"), 0.5);
  EXPECT_EQ(rate("combine_rate", "wire_bytes"), 30 * 512);
  EXPECT_EQ(rate("combine_rate", "logical_bytes"), 31 * 512);
  EXPECT_DOUBLE_EQ(rate("combine_rate", "logical_gb_per_s"), 3.1744) << "15872 bytes in 5 us";
}

TEST(bench_ep_point, bytes_are_the_mean_of_the_sets_and_what_is_received_counts_where_it_is_more) {
  ep_point p;
  p.config = small_config();
  p.split.steps.resize(4);
  p.moved = {rows_of(p.config, 3, {0, 0, 0, 4, 0, 0, 6, 0, 0}),
             rows_of(p.config, 3, {0, 0, 0, 2, 0, 0, 2, 0, 0})};
  EXPECT_DOUBLE_EQ(dispatch_bytes(p).out, (6 + 2) / 2.0 * 528);
  EXPECT_DOUBLE_EQ(dispatch_bytes(p).in, (10 + 4) / 2.0 * 528) << "all to rank 0";
  EXPECT_DOUBLE_EQ(combine_bytes(p).out, (10 + 4) / 2.0 * 512) << "which alone replies";
  EXPECT_DOUBLE_EQ(combine_bytes(p).in, (6 + 2) / 2.0 * 512);
  EXPECT_EQ(rows_of_ranks(p), (std::vector<double>{7, 0, 0}));
  ep_run run{.push_gb_per_s = 0.001};
  run.floor.samples_us = {{0, 0, 0}};
  EXPECT_DOUBLE_EQ(*limit_us(run, p), 7 * 528 + 7 * 512);
}

TEST(bench_ep_traffic, with_per_rank_a_token_is_one_message_for_all_its_experts_on_a_rank) {
  ep_config c = small_config();
  c.layout = ep_layout::per_rank;
  ep_traffic t{c, 2};
  const std::int32_t ids[] = {0, 1, 9, 2, 2, -1, 7, 8, 9};  // experts 0-4 are rank 0's
  t.count(0, ids);
  EXPECT_EQ(t.rows_between(0, 0), 4u);
  EXPECT_EQ(t.rows_between(0, 1), 4u);
  EXPECT_EQ(t.messages_between(0, 0), 2u);
  EXPECT_EQ(t.messages_between(0, 1), 2u);
  EXPECT_EQ(t.message_bytes(), 1024u) << "512 bytes of payload in one unit";
  EXPECT_EQ(t.dispatch_bytes(0, 1), 2 * 1024u + 512) << "and one access of ids";
  EXPECT_EQ(t.most_dispatch_bytes_of_rows_out(), 4 * 1024u + 512);
  t.count(1, {});
  EXPECT_EQ(t.dispatch_bytes(1, 0), 512u) << "ids also of no token";
  EXPECT_EQ(t.combine_bytes(1, 0), 2 * 2 * 512u) << "256 columns are two units of 240";
  c.transfer = ep_transfer::chunks;
  ep_traffic chunks{c, 2};
  chunks.count(0, ids);
  EXPECT_EQ(chunks.dispatch_bytes(0, 1), 2 * (512u + 16) + 512)
      << "512 bytes of payload and weights, and ids";
  EXPECT_EQ(chunks.combine_bytes(1, 0), 2 * 512u);
  c.transfer = ep_transfer::flags;
  ep_traffic flags{c, 2};
  flags.count(0, ids);
  EXPECT_EQ(flags.dispatch_bytes(0, 1), 2 * 1024u + 256) << "units as in lines, ids in words";
  EXPECT_EQ(flags.combine_bytes(1, 0), 2 * 2 * 512u);
}

TEST(bench_ep_traffic, sums_that_travel_back_in_fp8_are_half_as_many_bytes) {
  ep_config c = small_config();
  c.layout = ep_layout::per_rank;
  c.combine_format = token_format::blockwise_fp8;
  const auto reply_bytes = [&c](ep_transfer how, int hidden) {
    c.transfer = how;
    c.hidden = hidden;
    return ep_traffic{c, 2}.reply_bytes();
  };
  for (const ep_transfer how : {ep_transfer::lines, ep_transfer::flags}) {
    EXPECT_EQ(reply_bytes(how, 384), 512u);
    EXPECT_EQ(reply_bytes(how, 7168), 19 * 512u);
  }
  EXPECT_EQ(reply_bytes(ep_transfer::chunks, 7168), 7168u + 56 * 4);
}

constexpr rank_of_ranks first_of_two{0, 2};

TEST(bench_ep_check, one_wrong_bit_of_a_bf16_round_is_found) {
  const ep_config c = small_config();
  const rank_inputs in = random_inputs(c, 20, 5);
  std::vector<float> out = combined(c, in);
  EXPECT_EQ(compare_identity(c, first_of_two, in, out).wrong, 0u);
  out[777] = std::nextafter(out[777], 10.0f);
  EXPECT_EQ(compare_identity(c, first_of_two, in, out).wrong, 1u);
  out[778] = NAN;
  EXPECT_EQ(compare_identity(c, first_of_two, in, out).wrong, 2u);
}

TEST(bench_ep_check, a_token_combined_in_the_place_of_another_is_found_with_fp8) {
  for (const ep_layout layout : {ep_layout::per_expert, ep_layout::per_rank}) {
    ep_config c = small_config(token_format::blockwise_fp8);
    c.layout = layout;
    const rank_inputs in = random_inputs(c, 20, 5);
    std::vector<float> out = combined(c, in);
    EXPECT_EQ(compare_identity(c, first_of_two, in, out).wrong, 0u);
    std::swap_ranges(out.begin(), out.begin() + 256, out.begin() + 256);
    EXPECT_GT(compare_identity(c, first_of_two, in, out).wrong, 256u);
  }
}

TEST(bench_ep_check, sums_of_per_rank_are_told_from_those_of_per_expert_and_of_another_rank) {
  ep_config c = small_config();
  c.layout = ep_layout::per_rank;
  const rank_inputs in = random_inputs(c, 20, 5);
  EXPECT_GT(compare_identity(c, first_of_two, in, combined(c, in)).wrong, 1000u);
  EXPECT_EQ(compare_identity(c, {0, 1}, in, combined(c, in)).wrong, 0u) << "one rank rounds nothing";
}

TEST(bench_ep_timing, the_median_is_each_ranks_own_and_the_slowest_rank_counts) {
  ep_timing t;
  EXPECT_TRUE(t.empty());
  EXPECT_EQ(t.median_us(), 0);
  t.samples_us = {{1, 50}, {2, 10}, {90, 20}, {3, 40}};
  EXPECT_EQ(t.median_of_ranks(), (std::vector<double>{2.5, 30}));
  EXPECT_EQ(t.median_us(), 30);
  EXPECT_EQ(t.mad_us(), 15) << "distances 20 20 10 10";
  EXPECT_EQ(t.p99_us(), 90) << "the worst of four, of the rank where it is worst";
}

TEST(bench_ep_timing, the_99th_percentile_leaves_out_one_of_a_hundred) {
  ep_timing t;
  for (int i = 1; i <= 200; ++i) t.samples_us.push_back({static_cast<double>(i)});
  EXPECT_EQ(t.p99_us(), 198);
}

TEST(bench_ep_timing, a_limit_is_the_floor_and_the_bytes_at_the_push_bandwidth) {
  ep_run run;
  ep_point p;
  p.moved.emplace_back(small_config(), 2);
  const std::int32_t ids[] = {9, 8, 7};
  p.moved[0].count(0, ids);
  EXPECT_FALSE(limit_us(run, p)) << "nothing was measured";
  run.floor.samples_us = {{3, 4}};
  run.push_gb_per_s = 0.001;
  EXPECT_DOUBLE_EQ(*limit_us(run, p), 4.0 + 3 * 528 + 3 * 512);
}

TEST(bench_ep_check, what_shared_experts_made_is_expected_on_top_of_the_sum_in_fp32) {
  for (const token_format format : {token_format::bf16, token_format::blockwise_fp8}) {
    const ep_config c = small_config(format);
    rank_inputs in = random_inputs(c, 20, 5);
    std::vector<float> out = combined(c, in);
    in.shared_output = random_rows(c, 20, 6);
    EXPECT_GT(compare_identity(c, first_of_two, in, out).wrong, 4000u) << "of 5120: it is not in there";
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += static_cast<float>(in.shared_output[i]);
    EXPECT_EQ(compare_identity(c, first_of_two, in, out).wrong, 0u);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += static_cast<float>(in.shared_output[i]);
    EXPECT_GT(compare_identity(c, first_of_two, in, out).wrong, 4000u) << "it is in there twice";
  }
}

TEST(bench_ep_check, what_the_way_back_in_fp8_may_move_is_allowed_and_no_more) {
  for (const token_format format : {token_format::bf16, token_format::blockwise_fp8}) {
    ep_config c = small_config(format);
    c.layout = ep_layout::per_rank;
    c.combine_format = token_format::blockwise_fp8;
    const rank_inputs in = random_inputs(c, 20, 5);
    std::vector<float> out = combined(c, in);
    EXPECT_EQ(compare_identity(c, first_of_two, in, out).wrong, 0u);
    for (float& v : out) v *= 1.25f;
    EXPECT_GT(compare_identity(c, first_of_two, in, out).wrong, 3500u) << "of 5120";
  }
}

bench_ep_options small_run() {
  bench_ep_options o;
  o.ranks = 2;
  o.hidden = {128};
  o.top_k = {2};
  o.experts = {5};
  o.tokens = {3, 4};
  o.device = device_kind::cpu;
  o.repeats = 2;
  o.json = true;
  return o;
}

TEST(bench_ep, tokens_that_lie_once_are_compared_too_and_said) {
  bench_ep_options o = small_run();
  o.layouts = {ep_layout::per_rank};
  o.rows = ep_rows::by_token;
  std::ostringstream out;
  ASSERT_EQ(run_bench_ep(o, out), 0);
  std::istringstream lines{out.str()};
  int points = 0;
  for (std::string line; std::getline(lines, line); ++points) {
    const nlohmann::json point = test::parsed_json(line);
    EXPECT_EQ(point["checked"], true);
    EXPECT_EQ(point["axes"]["rows"], "by_token");
  }
  EXPECT_EQ(points, 4) << "two sizes in two formats";
  o.json = false;
  std::ostringstream table;
  ASSERT_EQ(run_bench_ep(o, table), 0);
  EXPECT_NE(table.str().find("by token"), std::string::npos) << table.str();
}

TEST(bench_ep, a_run_on_the_cpu_gives_one_object_for_each_point_with_all_samples) {
  std::ostringstream out;
  ASSERT_EQ(run_bench_ep(small_run(), out), 0);
  const std::vector<nlohmann::json> points = test::json_lines(out.str());
  ASSERT_EQ(points.size(), 8u) << "two sizes in two formats and two layouts";
  for (const nlohmann::json& point : points) {
    EXPECT_EQ(point["schema"], "baton.bench.ep/2");
    EXPECT_EQ(point["checked"], true);
    EXPECT_TRUE(point["nccl"].is_null());
    EXPECT_EQ(point["waits"]["ns"].size(), point["axes"]["ranks"].get<std::size_t>());
    EXPECT_FALSE(point["why_no_nccl"].get<std::string>().empty());
    EXPECT_GT(point["push_gb_per_s"].get<double>(), 0);
    EXPECT_TRUE(point["limits"]["floor"].is_null());
    EXPECT_EQ(point["rounds_timed_together"], 1);
    for (const auto& [form, calls] :
         {std::pair{"split", std::vector{"dispatch_async", "dispatch_wait", "combine_async", "combine_wait"}},
          {"fused", std::vector{"dispatch", "combine"}}}) {
      EXPECT_TRUE(point[form]["round_trip_graph"].is_null());
      EXPECT_GT(point[form]["round_trip"]["p99_us"].get<double>(), 0);
      for (const char* call : calls) {
        const nlohmann::json& samples = point[form]["calls"][call]["samples_us"];
        ASSERT_EQ(samples.size(), 2u) << call;
        EXPECT_EQ(samples[0].size(), 2u) << "one for each rank";
      }
    }
    const nlohmann::json& rate = point["dispatch_rate"];
    EXPECT_LE(rate["wire_bytes"], rate["wire_bytes_without_deduplication"]);
  }
  EXPECT_EQ(points[0]["axes"]["tokens"], 3);
  EXPECT_EQ(points[1]["axes"]["layout"], "per_rank");
  EXPECT_EQ(points[2]["axes"]["format"], "fp8");
}

TEST(bench_ep, inputs_may_be_quantised_and_ids_wide_which_the_axes_say) {
  bench_ep_options o = small_run();
  o.tokens = {3};
  o.formats = {token_format::blockwise_fp8, token_format::bf16};
  o.layouts = {ep_layout::per_rank};
  o.repeats = 1;
  o.forms = {.quantised = true, .wide_ids = true};
  std::ostringstream out;
  ASSERT_EQ(run_bench_ep(o, out), 0);
  std::istringstream lines{out.str()};
  for (const char* input : {"quantised", "bf16"}) {
    std::string line;
    ASSERT_TRUE(std::getline(lines, line));
    const auto point = test::parsed_json(line);
    EXPECT_EQ(point["checked"], true);
    EXPECT_EQ(point["axes"].value("input", "bf16"), input);
    EXPECT_EQ(point["axes"]["ids"], "int64");
  }
  o.json = false;
  std::ostringstream table;
  ASSERT_EQ(run_bench_ep(o, table), 0);
  EXPECT_NE(table.str().find("tokens are given in their format"), std::string::npos) << table.str();
  EXPECT_NE(table.str().find("ids are int64"), std::string::npos) << table.str();
}

TEST(bench_ep, combine_may_add_what_shared_experts_made_which_is_checked_and_said) {
  bench_ep_options o = small_run();
  o.tokens = {3};
  o.repeats = 1;
  o.forms.shared_output = true;
  std::ostringstream out;
  ASSERT_EQ(run_bench_ep(o, out), 0);
  const std::vector<nlohmann::json> points = test::json_lines(out.str());
  ASSERT_EQ(points.size(), 4u) << "two formats in two layouts";
  for (const nlohmann::json& point : points) {
    EXPECT_EQ(point["checked"], true);
    EXPECT_EQ(point["axes"]["shared_output"], true);
  }
  o.json = false;
  std::ostringstream table;
  ASSERT_EQ(run_bench_ep(o, table), 0);
  EXPECT_NE(table.str().find("combine adds what shared experts made"), std::string::npos) << table.str();
}

TEST(bench_ep, sums_may_travel_back_in_fp8_which_is_checked_and_said) {
  bench_ep_options o = small_run();
  o.tokens = {3};
  o.repeats = 1;
  o.combine_format = token_format::blockwise_fp8;
  std::ostringstream out;
  ASSERT_EQ(run_bench_ep(o, out), 0);
  int checked = 0;
  for (const nlohmann::json& point : test::json_lines(out.str())) {
    if (point["axes"]["layout"] == "per_expert") continue;  // which has no sums, and is left out
    EXPECT_EQ(point["checked"], true);
    EXPECT_EQ(point["axes"]["combine_format"], "fp8");
    ++checked;
  }
  EXPECT_EQ(checked, 2) << "formats";
  o.json = false;
  std::ostringstream table;
  ASSERT_EQ(run_bench_ep(o, table), 0);
  EXPECT_NE(table.str().find("travel back in fp8"), std::string::npos) << table.str();
  EXPECT_NE(table.str().find("use layout per_rank"), std::string::npos) << table.str();
}

TEST(bench_ep, what_only_one_layout_serves_is_left_out_of_the_other_and_said) {
  bench_ep_options o = small_run();
  o.formats = {token_format::bf16};
  o.num_threads = 64;  // layout per_rank takes 96 at least
  o.tokens = {3};
  std::ostringstream out, table;
  ASSERT_EQ(run_bench_ep(o, out), 0);
  const std::vector<nlohmann::json> points = test::json_lines(out.str());
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[0]["checked"], true);
  EXPECT_EQ(points[1]["axes"]["layout"], "per_rank");
  EXPECT_NE(points[1]["skipped"].get<std::string>().find("num_threads: 64"), std::string::npos);
  o.json = false;
  ASSERT_EQ(run_bench_ep(o, table), 0);
  EXPECT_NE(table.str().find("skipped: num_threads: 64"), std::string::npos) << table.str();
  o.layouts = {ep_layout::per_rank};
  EXPECT_THROW(run_bench_ep(o, out), invalid_argument) << "nothing is left to measure";
}

TEST(bench_ep, the_table_says_what_was_not_measured_and_the_file_gets_the_json) {
  bench_ep_options o = small_run();
  o.json = false;
  o.tokens = {3};
  const test::temporary_folder folder;
  o.json_path = (folder / "points.jsonl").string();
  std::ostringstream out;
  ASSERT_EQ(run_bench_ep(o, out), 0);
  EXPECT_NE(out.str().find("NCCL: not measured"), std::string::npos) << out.str();
  EXPECT_EQ(out.str().find("WRONG"), std::string::npos) << out.str();
  std::ifstream file{o.json_path};
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  EXPECT_EQ(test::parsed_json(line)["axes"]["tokens"], 3);
}

TEST(bench_ep, options_that_cannot_be_served_are_refused_before_anything_runs) {
  std::ostringstream out;
  bench_ep_options o = small_run();
  o.repeats = 0;
  EXPECT_THROW(run_bench_ep(o, out), invalid_argument);
  o = small_run();
  o.rounds = 1000;
  EXPECT_THROW(run_bench_ep(o, out), invalid_argument);
  o = small_run();
  o.top_k = {6};
  EXPECT_THROW(run_bench_ep(o, out), invalid_argument);
  o = small_run();
  o.tokens = {3, 0};
  EXPECT_THROW(run_bench_ep(o, out), invalid_argument);
  o = small_run();
  o.json_path = "/no/such/folder/x.json";
  EXPECT_THROW(run_bench_ep(o, out), bad_file);
  EXPECT_TRUE(out.str().empty()) << out.str();
}

}  // namespace
}  // namespace baton::cli
