// The benchmark of grouped products: its points, how rows spread, what it refuses, what its check notices, and a run on the CPU.
#include "cli/commands/bench_grouped.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "baton/error.hpp"
#include "cli/bench/grouped_point.hpp"
#include "cli/bench/grouped_session.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/command_lines.hpp"
#include "tests/support/json_lines.hpp"

namespace baton::cli {
namespace {

using test::message_of;
using test::operator+;
using test::says;
using test::words;

bench_gemm_options small_groups() {
  bench_gemm_options o;
  o.device = device_kind::cpu;
  o.repeats = 2;
  o.grouped.wanted = true;
  o.grouped.groups = 3;
  o.grouped.rows = {1, 5};
  o.grouped.routings = {group_routing::uniform, group_routing::skewed};
  o.shapes = {"24,16", "8,40"};
  return o;
}

std::int64_t sum(const std::vector<std::int32_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

TEST(bench_grouped, a_run_on_the_cpu_checks_and_times_each_shape_routing_and_number_of_rows) {
  bench_gemm_options o = small_groups();
  o.json = true;
  std::ostringstream out;
  EXPECT_EQ(run_bench_gemm(o, out), 0);
  std::vector<std::string> points;
  for (const nlohmann::json& j : test::json_lines(out.str())) {
    EXPECT_EQ(j["schema"], "baton.bench.grouped_gemm/1");
    EXPECT_EQ(j["who"], "baton");
    EXPECT_EQ(j["checked"], true);
    EXPECT_EQ(j["burst_samples_us"].size(), 2u);
    EXPECT_EQ(j["counts"].size(), 3u);
    EXPECT_EQ(j["rows"], sum(j["counts"]));
    EXPECT_EQ(j["rows"], 3 * j["rows_per_group"].get<int>());
    EXPECT_EQ(j["seed"], 1);
    EXPECT_GT(j["weights_gb_per_s"], 0);
    EXPECT_TRUE(j["model"].is_null() && j["sustained_us"].is_null() && j["least_us"].is_null());
    points.push_back(j["n"].dump() + " " + j["k"].dump() + " " + j["routing"].get<std::string>() + " " +
                     j["rows_per_group"].dump());
  }
  EXPECT_EQ(points, (std::vector<std::string>{"24 16 uniform 1", "24 16 uniform 5", "24 16 skewed 1",
                                              "24 16 skewed 5", "8 40 uniform 1", "8 40 uniform 5",
                                              "8 40 skewed 1", "8 40 skewed 5"}));
}

TEST(bench_grouped, a_table_has_a_heading_for_each_shape) {
  std::ostringstream out;
  EXPECT_EQ(run_bench_gemm(small_groups(), out), 0);
  EXPECT_TRUE(says(out.str(), "on the CPU", "3 groups, n 24, k 16", "3 groups, n 8, k 40", "weights GB/s",
                   "of roofline", "skewed"))
      << out.str();
}

TEST(bench_grouped, what_cannot_be_measured_is_refused_by_the_option_that_says_it) {
  const auto refusal = [](auto change) {
    bench_gemm_options o = small_groups();
    change(o);
    std::ostringstream out;
    return message_of<invalid_argument>([&] { run_bench_gemm(o, out); });
  };
  for (const char* word : {"", "8", "8,8,8", "8,", ",8", "x,8", "0,8", "8,65537"})
    EXPECT_TRUE(says(refusal([&](bench_gemm_options& o) { o.shapes = {word}; }), "--shapes: ", "is not N,K"))
        << word;
  EXPECT_TRUE(says(refusal([](bench_gemm_options& o) { o.shapes = {"8,12"}; }), "k: 12 is not a multiple"));
  EXPECT_EQ(refusal([](bench_gemm_options& o) { o.grouped.groups = 513; }),
            "--groups: 513 is not from 1 to 512");
  EXPECT_EQ(refusal([](bench_gemm_options& o) {
              o.grouped.rows = {8, 0};
            }),
            "--rows: 0 is not from 1 to 65536");
  EXPECT_EQ(refusal([](bench_gemm_options& o) { o.repeats = 0; }), "--repeats: 0 is not from 1 to 1048576");
  EXPECT_TRUE(says(refusal([](bench_gemm_options& o) { o.grouped.models = {"mixtral"}; }),
                   "--models: \"mixtral\" is not one of {deepseek-v3,", "mixtral-8x7b"));
}

TEST(bench_grouped, options_of_groups_need_them_and_those_of_dense_products_exclude_them) {
  const auto refusal = [](const words& more) {
    const test::child_result run = test::run_program(words{"bench", "gemm", "--device", "cpu"} + more);
    EXPECT_EQ(run.exit_code, 2);
    return run.err;
  };
  for (const char* option : {"--models", "--groups", "--rows", "--routing", "--seed"}) {
    const std::string value = std::string{option} == "--routing" ? "zipf" : "8";
    EXPECT_TRUE(says(refusal({option, value}), option, "--grouped"));
  }
  EXPECT_TRUE(says(refusal({"--grouped", "--out", "fp32"}), "--grouped", "--out"));
  EXPECT_TRUE(says(refusal({"--grouped", "--tiles", "wide"}), "--grouped", "--tiles"));
}

TEST(bench_grouped_points, models_are_as_their_configurations_say) {
  std::vector<std::string> all;
  for (const moe_model& model : moe_models())
    for (const grouped_shape& s : products_of(model))
      all.push_back(s.model + " " + s.product + " " + std::to_string(s.groups) + " " + std::to_string(s.n) +
                    " " + std::to_string(s.k));
  EXPECT_EQ(
      all, (std::vector<std::string>{"deepseek-v3 gate_up 64 4096 7168", "deepseek-v3 down 64 7168 2048",
                                     "qwen3-235b gate_up 128 3072 4096", "qwen3-235b down 128 4096 1536",
                                     "gpt-oss-120b gate_up 128 5760 2880", "gpt-oss-120b down 128 2880 2880",
                                     "mixtral-8x7b gate_up 8 28672 4096", "mixtral-8x7b down 8 4096 14336"}));
}

TEST(bench_grouped_points, every_routing_has_all_rows_and_a_seed_decides_where) {
  EXPECT_EQ(group_counts(group_routing::uniform, 3, 7, 1), (std::vector<std::int32_t>{7, 7, 7}));
  for (const group_routing routing : {group_routing::zipf, group_routing::skewed}) {
    const std::vector<std::int32_t> counts = group_counts(routing, 16, 100, 1);
    EXPECT_EQ(sum(counts), 1600) << name(routing);
    EXPECT_EQ(counts, group_counts(routing, 16, 100, 1)) << name(routing);
    EXPECT_NE(counts, group_counts(routing, 16, 100, 2)) << name(routing);
    EXPECT_EQ(group_counts(routing, 1, 5, 1), (std::vector<std::int32_t>{5})) << name(routing);
  }
}

TEST(bench_grouped_points, rows_spread_as_the_routing_says) {
  constexpr int groups = 64, rows = 4000;
  constexpr double all = double{groups} * rows;
  std::vector<std::int32_t> zipf = group_counts(group_routing::zipf, groups, rows, 1);
  std::sort(zipf.rbegin(), zipf.rend());
  double harmonic = 0;
  for (int n = 1; n <= groups; ++n) harmonic += 1.0 / n;
  // The count of a binomial is within five standard deviations of its mean all but once in a million draws.
  for (const int n : {1, 2, 3, 4}) {
    const double mean = all / (n * harmonic);
    EXPECT_NEAR(zipf[static_cast<std::size_t>(n - 1)], mean, 5 * std::sqrt(mean)) << n;
  }
  // A share that is a square of what is uniform on [0, 1) is below a quarter of the largest for half of the groups: 32, standard
  // deviation 4; shares themselves are exact here within 2 %.
  const std::vector<std::int32_t> skewed = group_counts(group_routing::skewed, groups, rows, 1);
  const std::int32_t largest = *std::max_element(skewed.begin(), skewed.end());
  EXPECT_NEAR(static_cast<double>(std::count_if(skewed.begin(), skewed.end(),
                                                [&](std::int32_t c) { return 4 * c < largest; })),
              32, 5 * 4);
  // The largest square is nearly 1 and their mean a third, standard deviation 0.298 / 8 of it: 11 %.
  EXPECT_NEAR(largest, 3.0 * rows, 5 * 0.112 * 3.0 * rows);
}

TEST(bench_grouped_session, a_right_product_passes_and_bugs_are_noticed) {
  const world cpu = world::local(1, device_kind::cpu)[0];
  grouped_session<grouped_gemm_problem> session{cpu, {{}, {}, 3, 16, 24}, {3, 0, 5}};
  const grouped_product<grouped_gemm_problem> right = [&](const grouped_gemm_problem& p, stream_ref s) {
    grouped_gemm(cpu, p, s);
  };
  EXPECT_EQ(session.first_wrong(right), "");

  EXPECT_TRUE(says(session.first_wrong([](const grouped_gemm_problem&, stream_ref) {}),
                   "c[0, 0] = ", "nan, expected"));
  const std::vector<std::int32_t> short_counts{2, 0, 4}, two_counts{3, 5}, two_firsts{0, 3};
  const device_buffer<std::int32_t> fewer{cpu, short_counts}, counts{cpu, two_counts},
      firsts{cpu, two_firsts};
  EXPECT_TRUE(says(session.first_wrong([&](grouped_gemm_problem p, stream_ref s) {
    p.rows.counts = fewer.data();  // the last row of each group is left out
    grouped_gemm(cpu, p, s);
  }),
                   "c[2, ", "nan"));
  EXPECT_TRUE(says(session.first_wrong([&](grouped_gemm_problem p, stream_ref s) {
    p.rows = {8, counts.data(), firsts.data(), 2};  // the empty group's matrix for the last group
    grouped_gemm(cpu, p, s);
  }),
                   "c[", "expected"));

  session.random_values();
  EXPECT_NO_THROW(session.enqueue(right, {}));
  cpu.synchronize();
}

TEST(bench_grouped_session, a_right_product_of_e4m3_passes_and_wrong_scales_are_noticed) {
  const world cpu = world::local(1, device_kind::cpu)[0];
  grouped_session<scaled_grouped_gemm_problem> session{cpu, {{}, {}, 3, 136, 272}, {3, 0, 5}};
  using problem = scaled_grouped_gemm_problem;
  EXPECT_EQ(session.first_wrong([&](const problem& p, stream_ref s) { scaled_grouped_gemm(cpu, p, s); }), "");
  EXPECT_TRUE(says(session.first_wrong([&](problem p, stream_ref s) {
    p.a_layout = scale_layout::column_major;  // scales of other rows and blocks
    scaled_grouped_gemm(cpu, p, s);
  }),
                   "c[", "expected"));
  EXPECT_TRUE(says(session.first_wrong([&](problem p, stream_ref s) {
    p.b_scales = p.b_scales + 3;  // those of the next columns
    scaled_grouped_gemm(cpu, p, s);
  }),
                   "c[", "expected"));
}

TEST(bench_grouped, products_of_e4m3_are_checked_and_timed_too) {
  bench_gemm_options o = small_groups();
  o.json = true;
  o.shapes = {"136,272"};
  o.formats = {operand_format::e4m3};
  o.grouped.routings = {group_routing::uniform};
  std::ostringstream out;
  EXPECT_EQ(run_bench_gemm(o, out), 0);
  for (const nlohmann::json& j : test::json_lines(out.str())) {
    EXPECT_EQ(j["format"], "e4m3");
    EXPECT_EQ(j["checked"], true);
    EXPECT_EQ(j["weight_bytes"], 3.0 * 136 * 272);
  }
}

TEST(bench_grouped, products_of_fp16_are_checked_and_timed_too) {
  bench_gemm_options o = small_groups();
  o.json = true;
  o.shapes = {"136,272"};
  o.formats = {operand_format::fp16};
  o.grouped.routings = {group_routing::uniform};
  std::ostringstream out;
  EXPECT_EQ(run_bench_gemm(o, out), 0);
  for (const nlohmann::json& j : test::json_lines(out.str())) {
    EXPECT_EQ(j["format"], "fp16");
    EXPECT_EQ(j["checked"], true);
    EXPECT_EQ(j["weight_bytes"], 2 * 3.0 * 136 * 272);
  }
}

TEST(bench_grouped_point, only_groups_with_rows_are_read_and_only_rows_that_there_are_count) {
  const grouped_point p{
      {{}, {}, 3, 100, 10}, operand_format::bf16, 4, group_routing::skewed, 1, {10, 0, 2}, {},
      {1.0, 2.0, 4.0}};
  EXPECT_EQ(p.flops(), 2.0 * 12 * 100 * 10);
  EXPECT_EQ(p.weight_bytes(), 2.0 * 2 * 100 * 10);
  EXPECT_EQ(p.bytes(), p.weight_bytes() + 2.0 * 12 * 110);
  gemm_run run;
  run.tensor_flops_per_us = 48'000;
  run.copied_bytes_per_us = 6'640;
  const nlohmann::json j = to_json(run, p);
  EXPECT_EQ(j["least_us"], 1.0) << "reading takes longer than multiplying";
  EXPECT_EQ(j["burst_median_us"], 2.0);
  EXPECT_EQ(j["burst_mad_us"], 1.0);
  EXPECT_EQ(j["weights_gb_per_s"], 2.0);
  EXPECT_EQ(j["groups_with_rows"], 2);
  std::ostringstream out;
  print(run, p, out);
  EXPECT_TRUE(says(out.str(), "skewed", " 10 ", "50.0 %")) << out.str();
}

TEST(bench_grouped_point, a_wrong_product_has_no_times) {
  const grouped_point p{{{}, {}, 1, 8, 8},
                        operand_format::bf16,
                        1,
                        group_routing::uniform,
                        1,
                        {1},
                        "c[0, 0] = 1, expected 2",
                        {}};
  const nlohmann::json j = to_json({}, p);
  EXPECT_EQ(j["checked"], false);
  EXPECT_TRUE(j["burst_tflops"].is_null() && j["weights_gb_per_s"].is_null());
  std::ostringstream out;
  print({}, p, out);
  EXPECT_TRUE(says(out.str(), "WRONG: c[0, 0] = 1, expected 2"));
}

}  // namespace
}  // namespace baton::cli
