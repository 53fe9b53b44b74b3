// Two runs of the exchange benchmark compared: what counts as a change, and files that nobody vouches for.
#include "cli/commands/bench_compare.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "baton/error.hpp"
#include "cli/bench_comparison.hpp"
#include "cli/commands/bench_ep.hpp"
#include "tests/cpu/says.hpp"
#include "tests/cpu/temporary_folder.hpp"
#include "tests/support/parsed_json.hpp"

namespace baton::cli {
namespace {

using nlohmann::json;
using test::says;

/// A line of a run: one time with these samples of one rank.
std::string line(int tokens, const std::vector<double>& samples) {
  json of_repeats = json::array();
  for (const double s : samples) of_repeats.push_back({s});
  return json{{"schema", "baton.bench.ep/2"},
              {"axes", {{"tokens", tokens}, {"layout", "per_rank"}, {"seed", 1}}},
              {"fused", {{"round_trip_graph", {{"median_us", 0}, {"samples_us", of_repeats}}}}}}
             .dump() +
         "\n";
}

struct two_files {
  test::temporary_folder folder;
  bench_compare_options options{folder / "old.jsonl", folder / "new.jsonl", true};
  two_files(const std::string& before, const std::string& after) {
    test::write_file(options.before, before);
    test::write_file(options.after, after);
  }
  int run(std::string& text) const {
    std::ostringstream out;
    const int code = run_bench_compare(options, out);
    text = out.str();
    return code;
  }
};

TEST(bench_compare, a_time_changed_if_it_moved_by_more_than_its_samples_vary) {
  const std::vector<double> before{10, 10.1, 9.9, 10.2, 9.8};  // median absolute deviation 0.1
  const auto changed_by = [&](double by) {
    std::vector<double> after = before;
    for (double& v : after) v += by;
    std::string text;
    const int code = two_files{line(8, before), line(8, after)}.run(text);
    const json time = test::parsed_json(text)["times"][0];
    EXPECT_EQ(time["time"], "fused.round_trip_graph");
    EXPECT_EQ(time["is_beyond_spread"].get<bool>() && by > 0, code == 1) << "slower is a failed check";
    return time["is_beyond_spread"].get<bool>();
  };
  EXPECT_FALSE(changed_by(0));
  EXPECT_FALSE(changed_by(0.6)) << "three deviations are 3 * 1.48 * 0.14 us";
  EXPECT_TRUE(changed_by(0.7));
  EXPECT_FALSE(changed_by(-0.6));
  EXPECT_TRUE(changed_by(-0.7));
}

TEST(bench_compare, a_change_below_one_percent_is_none_however_still_the_samples_are) {
  std::string text;
  EXPECT_EQ((two_files{line(8, {100, 100}), line(8, {100.9, 100.9})}.run(text)), 0);
  EXPECT_EQ((two_files{line(8, {100, 100}), line(8, {101.1, 101.1})}.run(text)), 1);
}

TEST(bench_compare, runs_in_one_file_add_their_samples_and_points_of_one_file_are_named) {
  two_files files{line(8, {10, 10}) + line(8, {20, 20}) + line(1, {5}), line(8, {15}) + line(512, {5})};
  std::string text;
  EXPECT_EQ(files.run(text), 0);
  const json j = test::parsed_json(text);
  EXPECT_EQ(j["times"][0]["old_us"], 15);
  EXPECT_EQ(j["only_in_old"], json::array({"layout per_rank, tokens 1"}));
  EXPECT_EQ(j["only_in_new"], json::array({"layout per_rank, tokens 512"}));
  files.options.json = false;
  EXPECT_EQ(files.run(text), 0);
  EXPECT_TRUE(says(text, "only in the old file: layout per_rank, tokens 1", "0 of 1 times changed"));
}

TEST(bench_compare, a_table_says_what_changed_and_by_how_much) {
  two_files files{line(8, {10}), line(8, {8})};
  files.options.json = false;
  std::string text;
  EXPECT_EQ(files.run(text), 0) << "faster is no failure";
  EXPECT_TRUE(says(text, "tokens 8", "fused.round_trip_graph", "10.0", "8.0 us", "-20.0 %", "1 of 1 times"));
}

TEST(bench_compare, what_the_benchmark_writes_is_the_same_as_itself) {
  const test::temporary_folder folder;
  bench_ep_options run{.ranks = 2, .tokens = {2}, .hidden = {128}, .top_k = {1}, .experts = {2}};
  run.device = device_kind::cpu;
  run.repeats = 1;
  run.json = true;
  run.json_path = (folder / "run.jsonl").string();
  std::ostringstream ignored, out;
  ASSERT_EQ(run_bench_ep(run, ignored), 0);
  EXPECT_EQ(run_bench_compare({run.json_path, run.json_path}, out), 0);
  EXPECT_TRUE(says(out.str(), "0 of 40 times changed")) << out.str();
}

TEST(bench_compare, files_that_the_benchmark_did_not_write_are_refused_by_line) {
  const auto reading = [](const std::string& text) {
    const two_files files{text, text};
    return test::message_of<bad_file>([&] { read_points(files.options.before); });
  };
  EXPECT_TRUE(says(reading(""), "old.jsonl", "no point"));
  EXPECT_TRUE(says(reading("{}\n"), "line 1", "baton.bench.ep/2"));
  EXPECT_TRUE(says(reading("[1]\n"), "line 1", "baton.bench.ep/2"));
  EXPECT_TRUE(says(reading(line(8, {1}) + "{\n"), "line 2"));
  EXPECT_TRUE(says(reading(R"({"schema": "baton.bench.ep/2"})"), "`axes`"));
  for (const char* samples : {"[]", "[1]", "[[]]", "[[1], [1, 2]]", "[[-1]]", "[[\"a\"]]", "{}"})
    EXPECT_TRUE(
        says(reading(std::string{R"({"schema": "baton.bench.ep/2", "axes": {}, "a": {"samples_us": )"} +
                     samples + "}}"),
             "a.samples_us", "[repeat][rank]"))
        << samples;
  const std::string long_name(1 << 20, 'k');
  EXPECT_LT(
      reading(R"({"schema": "baton.bench.ep/2", "axes": {}, ")" + long_name + R"(": {"samples_us": 1}})")
          .size(),
      500u)
      << "a file must not be able to fill somebody's screen";
}

}  // namespace
}  // namespace baton::cli
