// The ring benchmark: its statistics, its JSON, what it refuses, and a whole run on the CPU.
#include "cli/commands/bench_ring.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "baton/error.hpp"
#include "cli/bench/gemm_session.hpp"
#include "cli/bench/hand_off/hand_off.hpp"
#include "cli/bench/ring_point.hpp"
#include "cli/bench/statistics.hpp"
#include "tests/cpu/says.hpp"
#include "tests/cpu/temporary_folder.hpp"
#include "tests/support/parsed_json.hpp"

namespace baton::cli {
namespace {

TEST(bench_ring_point, median_and_deviation_are_of_all_samples) {
  EXPECT_EQ(median_of({3, 1, 2}), 2);
  EXPECT_EQ(median_of({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(mad_of({1, 2, 3, 4, 100}), 1);
  EXPECT_EQ(median_of({}), 0);
}

TEST(bench_ring_point, a_hand_off_says_everything_about_itself) {
  const hand_off_point p{ring_strategy::split_counter, 3, 2, 500, {100, 110, 130}};
  const nlohmann::json j = to_json({.device = "cuda", .gpu = "1 x GPU", .date = "now", .driver = 13000}, p);
  EXPECT_EQ(j["schema"], "baton.bench.ring/1");
  EXPECT_EQ(j["case"], "hand_off");
  EXPECT_EQ(j["strategy"], "split_counter");
  EXPECT_EQ(j["stages"], 3);
  EXPECT_EQ(j["readers"], 2);
  EXPECT_EQ(j["median_cycles"], 110.0);
  EXPECT_EQ(j["mad_cycles"], 10.0);
  EXPECT_EQ(j["samples_cycles"].size(), 3u);
  EXPECT_EQ(j["gpu"], "1 x GPU");
}

TEST(bench_ring_point, a_table_has_a_row_a_reader_and_a_column_a_stage) {
  std::ostringstream out;
  print_hand_offs({{ring_strategy::mbarrier, 1, 1, 10, {90}},
                   {ring_strategy::mbarrier, 2, 1, 10, {60}},
                   {ring_strategy::mbarrier, 1, 4, 10, {120}},
                   {ring_strategy::mbarrier, 2, 4, 10, {80}}},
                  out);
  EXPECT_EQ(out.str(),
            "\nmbarrier: cycles per hand-off\n"
            "  readers \\ stages      1      2\n"
            "                 1     90     60\n"
            "                 4    120     80\n");
}

TEST(bench_ring_point, a_wrong_product_has_no_times) {
  const ring_gemm_point p{ring_strategy::mbarrier, 64, "small", "c[0, 0] = 1, expected 2", {}};
  const nlohmann::json j = to_json(ring_run{}, p);
  EXPECT_EQ(j["checked"], false);
  EXPECT_TRUE(j["tflops"].is_null() && j["median_us"].is_null() && j["gpu"].is_null());
  std::ostringstream out;
  print_gemm(p, 0, out);
  EXPECT_TRUE(test::says(out.str(), "WRONG: c[0, 0] = 1, expected 2"));
}

TEST(bench_ring_point, a_product_is_told_beside_the_reference_of_its_run) {
  const ring_gemm_point ours{ring_strategy::mbarrier, 1000, "large", {}, {20}},
      reference{{}, 1000, "", {}, {10}};
  std::ostringstream out;
  print_gemm(ours, 10, out);
  print_gemm(reference, 10, out);
  EXPECT_TRUE(test::says(out.str(), "mbarrier", "100", "50 %", "cublas", "200"));
  const nlohmann::json j = to_json({.cublas = "13.0.2"}, reference);
  EXPECT_EQ(j["strategy"], "cublas");
  EXPECT_EQ(j["cublas"], "13.0.2");
}

TEST(bench_ring, a_run_on_the_cpu_checks_and_times_each_strategy) {
  const test::temporary_folder folder;
  const auto path = folder.path() / "ring.jsonl";
  std::ostringstream out;
  const int code = run_bench_ring(
      {.sizes = {70}, .device = device_kind::cpu, .repeats = 2, .json_path = path.string()}, out);
  EXPECT_EQ(code, 0) << out.str();
  EXPECT_TRUE(
      test::says(out.str(), "no hand-offs: ", "single_counter", "per_reader_flags", "mbarrier", "TFLOP/s"));
  std::ifstream file{path};
  std::string line;
  int points = 0;
  while (std::getline(file, line)) {
    const nlohmann::json j = test::parsed_json(line);
    EXPECT_EQ(j["case"], "ring_gemm");
    EXPECT_EQ(j["samples_us"].size(), 2u);
    EXPECT_TRUE(j["checked"]);
    ++points;
  }
  EXPECT_EQ(points, 4);
}

TEST(bench_ring, json_on_stdout_is_json_alone) {
  std::ostringstream out;
  run_bench_ring({.strategies = {ring_strategy::mbarrier},
                  .sizes = {64},
                  .device = device_kind::cpu,
                  .repeats = 1,
                  .json = true},
                 out);
  EXPECT_EQ(test::parsed_json(out.str())["strategy"], "mbarrier");
}

TEST(bench_ring, numbers_out_of_range_are_named) {
  const auto message = [](const bench_ring_options& o) {
    std::ostringstream out;
    return test::message_of<invalid_argument>([&] { run_bench_ring(o, out); });
  };
  EXPECT_TRUE(test::says(message({.readers = {9}}), "readers: 9", "1, 2, 4, 8"));
  EXPECT_TRUE(test::says(message({.readers = {3}}), "readers: 3", "1, 2, 4, 8"));
  EXPECT_TRUE(test::says(message({.stages = {0}}), "stages: 0"));
  EXPECT_TRUE(test::says(message({.repeats = 0}), "repeats: 0"));
  EXPECT_TRUE(test::says(message({.sizes = {-4}}), "sizes: -4"));
}

TEST(bench_ring, hand_offs_need_a_gpu) {
  const auto worlds = world::local(1, device_kind::cpu);
  EXPECT_THROW(hand_off::measure(worlds[0], {}), unsupported);
  EXPECT_THROW(hand_off::measure(worlds[0], {.readers = 9}), invalid_argument);
  EXPECT_THROW(hand_off::measure(worlds[0], {.stages = 3}), invalid_argument);
}

}  // namespace
}  // namespace baton::cli
