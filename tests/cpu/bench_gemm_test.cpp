// The benchmark of products: its points, what it refuses, and a whole run on the CPU.
#include "cli/commands/bench_gemm.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "baton/error.hpp"
#include "cli/bench/cublaslt_product.hpp"
#include "cli/bench/gemm_point.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/json_lines.hpp"

namespace baton::cli {
namespace {

using test::message_of;
using test::says;

bench_gemm_options small_gemm() {
  bench_gemm_options o;
  o.device = device_kind::cpu;
  o.shapes = {"24,16,40", "8"};
  o.out = {"bf16", "fp32"};
  o.repeats = 2;
  return o;
}

TEST(bench_gemm, a_run_on_the_cpu_checks_and_times_each_shape_with_each_result) {
  bench_gemm_options o = small_gemm();
  o.json = true;
  std::ostringstream out;
  EXPECT_EQ(run_bench_gemm(o, out), 0);
  std::vector<std::string> points;
  for (const nlohmann::json& j : test::json_lines(out.str())) {
    EXPECT_EQ(j["schema"], "baton.bench.gemm/1");
    EXPECT_EQ(j["checked"], true);
    EXPECT_EQ(j["burst_samples_us"].size(), 2u);
    EXPECT_TRUE(j["sustained_us"].is_null() && j["least_us"].is_null()) << "measured on GPUs only";
    points.push_back(j["who"].get<std::string>() + " " + j["m"].dump() + " " + j["n"].dump() + " " +
                     j["k"].dump() + " " + j["out"].get<std::string>());
  }
  EXPECT_EQ(points, (std::vector<std::string>{"automatic 24 16 40 bf16", "automatic 24 16 40 fp32",
                                              "automatic 8 8 8 bf16", "automatic 8 8 8 fp32"}));
}

TEST(bench_gemm, a_table_says_why_nothing_stands_beside) {
  std::ostringstream out;
  EXPECT_EQ(run_bench_gemm(small_gemm(), out), 0);
  EXPECT_TRUE(says(out.str(), "on the CPU", "no cuBLAS beside: ", "24, 16, 40", "of roofline")) << out.str();
}

TEST(bench_gemm, products_of_each_format_are_checked_and_timed) {
  bench_gemm_options o = small_gemm();
  o.json = true;
  o.shapes = {"24,136,272"};
  o.out = {};
  o.formats = {operand_format::bf16, operand_format::fp16, operand_format::e4m3};
  std::ostringstream out;
  EXPECT_EQ(run_bench_gemm(o, out), 0);
  std::vector<std::string> points;
  for (const nlohmann::json& j : test::json_lines(out.str())) {
    EXPECT_EQ(j["checked"], true);
    EXPECT_TRUE(j["cublaslt"].is_null());
    points.push_back(j["format"].get<std::string>() + " " + j["out"].get<std::string>() + " " +
                     j["bytes"].dump());
  }
  const int values = 272 * (24 + 136), results = 24 * 136;
  EXPECT_EQ(points, (std::vector<std::string>{"bf16 bf16 " + std::to_string(2 * values + 2 * results) + ".0",
                                              "fp16 fp16 " + std::to_string(2 * values + 2 * results) + ".0",
                                              "e4m3 bf16 " + std::to_string(values + 2 * results) + ".0"}));
}

TEST(bench_gemm, results_of_fp32_are_told_of_both_formats_of_16_bits) {
  bench_gemm_options o = small_gemm();
  o.json = true;
  o.shapes = {"8"};
  o.out = {"fp32"};
  o.formats = {operand_format::bf16, operand_format::fp16};
  std::ostringstream out;
  EXPECT_EQ(run_bench_gemm(o, out), 0);
  std::string points;
  for (const nlohmann::json& j : test::json_lines(out.str()))
    points += j["format"].get<std::string>() + " " + j["out"].get<std::string>() + ", ";
  EXPECT_EQ(points, "bf16 fp32, fp16 fp32, ");
}

TEST(bench_gemm, products_with_b_in_either_layout_are_checked) {
  bench_gemm_options o = small_gemm();
  o.json = true;
  o.b_layouts = {gemm_b_layout::n_by_k, gemm_b_layout::k_by_n};
  std::ostringstream out;
  EXPECT_EQ(run_bench_gemm(o, out), 0);
  std::string layouts;
  for (const nlohmann::json& j : test::json_lines(out.str())) {
    EXPECT_EQ(j["checked"], true);
    layouts += j["b_layout"].get<std::string>() + " ";
  }
  EXPECT_EQ(layouts, "n_by_k n_by_k k_by_n k_by_n n_by_k n_by_k k_by_n k_by_n ");
}

TEST(bench_gemm_session, a_product_that_takes_b_for_the_other_layout_is_noticed) {
  const world cpu = world::local(1, device_kind::cpu)[0];
  gemm_session<gemm_problem<bfloat16>> session{cpu, {24, 16, 40, gemm_b_layout::k_by_n}};
  EXPECT_TRUE(says(session.first_wrong([&](gemm_problem<bfloat16> p, stream_ref s) {
    p.b_layout = gemm_b_layout::n_by_k;
    gemm(cpu, p, {}, s);
  }),
                   "c[", "expected"));
}

TEST(bench_gemm, a_table_of_e4m3_says_why_no_cublaslt_stands_beside) {
  bench_gemm_options o = small_gemm();
  o.shapes = {"16"};
  o.out = {"bf16"};
  o.formats = {operand_format::e4m3};
  std::ostringstream out;
  EXPECT_EQ(run_bench_gemm(o, out), 0);
  EXPECT_TRUE(says(out.str(), "no cuBLASLt beside: ", "16, 16, 16", "e4m3")) << out.str();
  EXPECT_FALSE(says(out.str(), "no cuBLAS beside")) << "it was not asked for";
}

TEST(bench_gemm, results_and_tiles_that_products_of_e4m3_do_not_have_are_refused) {
  const auto refusal = [](auto change) {
    bench_gemm_options o = small_gemm();
    o.formats = {operand_format::bf16, operand_format::e4m3};
    o.out = {"bf16"};
    change(o);
    std::ostringstream out;
    return message_of<invalid_argument>([&] { run_bench_gemm(o, out); });
  };
  EXPECT_TRUE(says(refusal([](bench_gemm_options& o) {
                     o.out = {"bf16", "fp32"};
                   }),
                   "--out: ", "e4m3", "fp32"));
  EXPECT_TRUE(says(refusal([](bench_gemm_options& o) {
                     o.formats = {operand_format::fp16};
                     o.out = {"bf16"};
                   }),
                   "--out: ", "fp16", "bf16"));
  EXPECT_TRUE(
      says(refusal([](bench_gemm_options& o) { o.tiles = {gemm_tiles::wide}; }), "--tiles: ", "e4m3"));
  EXPECT_TRUE(
      says(refusal([](bench_gemm_options& o) { o.b_layouts = {gemm_b_layout::k_by_n}; }), "--b: ", "e4m3"));
  EXPECT_TRUE(says(refusal([](bench_gemm_options& o) { o.shapes = {"8,8,24"}; }), "k: 24 is not a multiple"));
}

TEST(bench_gemm, numbers_of_blocks_that_share_out_k_run_side_by_side_with_automatic_tiles) {
  bench_gemm_options o = small_gemm();
  o.json = true;
  o.shapes = {"8"};
  o.out = {"bf16"};
  o.splits = {0, 1, 4};
  std::ostringstream out;
  EXPECT_EQ(run_bench_gemm(o, out), 0);
  std::vector<std::string> who;
  for (const nlohmann::json& j : test::json_lines(out.str())) who.push_back(j["who"]);
  EXPECT_EQ(who, (std::vector<std::string>{"automatic", "automatic, k/1", "automatic, k/4"}));
  o.tiles = {gemm_tiles::automatic, gemm_tiles::medium};
  EXPECT_TRUE(says(message_of<invalid_argument>([&] { run_bench_gemm(o, out); }), "--tiles: medium",
                   "use --splits 1"));
  o.splits = {1};
  EXPECT_EQ(run_bench_gemm(o, out), 0);
}

TEST(bench_gemm, what_cublaslt_asks_of_a_problem_is_told) {
  const auto why_not = [](int m, int k, scale_layout layout) {
    const char* reason = why_not_cublaslt({.m = m, .n = 8, .k = k, .a_layout = layout});
    return std::string{reason == nullptr ? "" : reason};
  };
  EXPECT_EQ(why_not(4, 512, scale_layout::column_major), "");
  EXPECT_EQ(why_not(4, 400, scale_layout::column_major), "") << "the fourth block is a part of one";
  EXPECT_TRUE(says(why_not(6, 512, scale_layout::column_major), "m is no multiple of 4"));
  EXPECT_TRUE(says(why_not(4, 528, scale_layout::column_major), "scales are no multiple of 4"));
  EXPECT_TRUE(says(why_not(4, 512, scale_layout::row_major), "not column-major"));
}

TEST(bench_gemm_session, a_right_product_of_e4m3_passes_and_wrong_scales_are_noticed) {
  const world cpu = world::local(1, device_kind::cpu)[0];
  gemm_session<scaled_gemm_problem> session{cpu, {24, 136, 272}};
  using problem = scaled_gemm_problem;
  EXPECT_EQ(session.first_wrong([&](const problem& p, stream_ref s) { scaled_gemm(cpu, p, {}, s); }), "");
  EXPECT_TRUE(says(session.first_wrong([&](problem p, stream_ref s) {
    p.a_layout = scale_layout::row_major;
    scaled_gemm(cpu, p, {}, s);
  }),
                   "c[", "expected"));
  EXPECT_TRUE(says(session.first_wrong([](const problem&, stream_ref) {}), "c[0, 0] = ", "nan, expected"));
}

TEST(bench_gemm, what_is_no_shape_is_refused) {
  const auto refusal = [](auto change) {
    bench_gemm_options o = small_gemm();
    change(o);
    std::ostringstream out;
    return message_of<invalid_argument>([&] { run_bench_gemm(o, out); });
  };
  for (const char* word :
       {"", "8,8", "8,8,8,8", "8,", "8,8,", "x", "8x8", "0", "-8", "8,65537,8", "9999999999"})
    EXPECT_TRUE(
        says(refusal([&](bench_gemm_options& o) { o.shapes = {word}; }), "--shapes: ", "is not M,N,K"))
        << word;
  EXPECT_TRUE(says(refusal([](bench_gemm_options& o) { o.shapes = {"8,12,8"}; }), "n: 12 is not a multiple"));
  EXPECT_EQ(refusal([](bench_gemm_options& o) { o.repeats = 0; }), "--repeats: 0 is not from 1 to 1048576");
  EXPECT_EQ(refusal([](bench_gemm_options& o) { o.sustained_ms = -1; }),
            "--sustained-ms: -1 is not from 0 to 60000");
}

TEST(bench_gemm_point, a_wrong_product_has_no_times) {
  const gemm_point p{{8, 8, 8}, "bf16", "baton", "c[0, 0] = 1, expected 2", {}};
  const nlohmann::json j = to_json({}, p);
  EXPECT_EQ(j["checked"], false);
  EXPECT_TRUE(j["burst_tflops"].is_null() && j["burst_median_us"].is_null() && j["gpu"].is_null());
  std::ostringstream out;
  print({}, p, nullptr, out);
  EXPECT_TRUE(says(out.str(), "WRONG: c[0, 0] = 1, expected 2"));
}

TEST(bench_gemm_point, the_roofline_is_the_slower_of_arithmetic_and_memory) {
  gemm_run run;
  run.tensor_flops_per_us = 1000;
  run.copied_bytes_per_us = 100;
  const gemm_point large{{1000, 1000, 1000}, "bf16", "baton", {}, {4e6}};
  EXPECT_EQ(least_us(run, large), 2e6);
  const gemm_point thin{{1, 1000, 1000}, "fp32", "baton", {}, {4e6}};
  EXPECT_EQ(least_us(run, thin), (2.0 * 1000 * 1001 + 4 * 1000) / 100);
  EXPECT_EQ(least_us({}, large), 0) << "not measured";
}

TEST(bench_gemm_point, a_product_is_told_beside_the_reference_and_the_limits_of_its_run) {
  gemm_run run;
  run.tensor_flops_per_us = 1e9;
  run.copied_bytes_per_us = 1e9;
  const gemm_point ours{{1000, 1000, 1000}, "bf16", "baton", {}, {4}, 5},
      reference{{1000, 1000, 1000}, "bf16", "cublas", {}, {3}, 6};
  std::ostringstream out;
  print(run, ours, &reference, out);
  EXPECT_TRUE(says(out.str(), "500", "75.0 %", "50.0 %", "400", "120.0 %")) << out.str();
}

TEST(bench_gemm_point, a_rate_of_very_few_values_stands_apart_from_its_time) {
  std::ostringstream out;
  print({}, {{8, 8, 8}, "bf16", "baton", {}, {1.362}}, nullptr, out);
  EXPECT_TRUE(says(out.str(), " 1.4 0.0007518 ")) << out.str();
}

}  // namespace
}  // namespace baton::cli
