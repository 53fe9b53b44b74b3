// The benchmark of products: its points, what it refuses, and a whole run on the CPU.
#include "cli/commands/bench_gemm.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "baton/error.hpp"
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

}  // namespace
}  // namespace baton::cli
