// The benchmark of fused_silu: what it refuses, and a whole run on the CPU.
#include "cli/commands/bench_silu.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "baton/error.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/json_lines.hpp"

namespace baton::cli {
namespace {

using test::message_of;
using test::says;

bench_silu_options small_silu() {
  bench_silu_options o;
  o.device = device_kind::cpu;
  o.rows = {5};
  o.columns = 256;
  o.repeats = 2;
  return o;
}

TEST(bench_silu, measures_every_format_beside_a_copy_of_as_many_bytes_after_a_check) {
  bench_silu_options o = small_silu();
  o.json = true;
  std::ostringstream out;
  EXPECT_EQ(run_bench_silu(o, out), 0);
  std::vector<std::string> formats;
  for (const nlohmann::json& j : test::json_lines(out.str())) {
    EXPECT_EQ(j["schema"], "baton.bench.silu/1");
    EXPECT_EQ(j["checked"], true);
    EXPECT_EQ(j["samples_us"].size(), 2u);
    EXPECT_EQ(j["copy_samples_us"].size(), 2u);
    EXPECT_GT(j["fraction_of_copy"].get<double>(), 0);
    formats.push_back(j["format"]);
    if (formats.back() == "nvfp4") {
      EXPECT_EQ(j["bytes"], 5 * (4 * 256 + 128 + 16));
    }
  }
  EXPECT_EQ(formats, (std::vector<std::string>{"bf16", "fp8", "mxfp8", "mxfp4", "nvfp4"}));
}

TEST(bench_silu, a_table_has_a_line_for_each_format) {
  std::ostringstream out;
  EXPECT_EQ(run_bench_silu(small_silu(), out), 0);
  EXPECT_TRUE(says(out.str(), "of a copy", "bf16", "mxfp4", "nvfp4")) << out.str();
}

TEST(bench_silu, sizes_that_do_not_fit_are_refused) {
  const auto refusal = [](auto change) {
    bench_silu_options o = small_silu();
    change(o);
    std::ostringstream out;
    return message_of<invalid_argument>([&] { run_bench_silu(o, out); });
  };
  EXPECT_EQ(refusal([](bench_silu_options& o) { o.columns = 96; }),
            "--columns: 96 is not a multiple of 128, as format fp8 needs");
  EXPECT_EQ(refusal([](bench_silu_options& o) { o.rows = {0}; }), "--rows: 0 is not from 1 to 1048576");
}

}  // namespace
}  // namespace baton::cli
