// `baton check`: what it prints, what its exit code says, and a whole run of a small protocol.
#include "cli/commands/check.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "baton/error.hpp"
#include "cli/exit_code.hpp"
#include "cli/view/text.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/child_program.hpp"
#include "tests/support/parsed_json.hpp"

namespace baton::cli {
namespace {

using checks::protocol_check;

/// A message from one warp to another; in order only if it is stored with release.
template <order Order>
check::result explore_message(const check::bounds& limits) {
  return check::explore(limits, [](check::program& p) {
    auto* data = p.allocate<std::uint32_t>(1, "data");
    auto* flag = p.allocate<std::uint32_t>(1, "flag");
    p.spawn(0, 0, 0, [=](check::context& x) {
      x.write(data, 42u);
      x.store<Order, scope::device>(flag, 1u);
    });
    p.spawn(0, 1, 0, [=](check::context& x) {
      if (x.load<order::acquire, scope::device>(flag) == 1) x.read(data);
    });
  });
}

protocol_check message() {
  return {.name = "message",
          .title = "One message",
          .headers = {"sim/check.hpp"},
          .explorations = {{"2 blocks", explore_message<order::release>}},
          .mutants = {
              {"the store is relaxed", "E1", {check::verdict::data_race}, explore_message<order::relaxed>}}};
}

struct outcome {
  int code;
  std::string text;
};

outcome run(const check_options& options, const std::vector<protocol_check>& protocols) {
  std::ostringstream out;
  const int code = run_check(options, protocols, out);
  return {code, out.str()};
}

constexpr int ok = static_cast<int>(exit_code::ok), failed = static_cast<int>(exit_code::check_failed);

TEST(check_command, a_protocol_that_holds_and_whose_mutants_are_noticed_is_well) {
  const outcome o = run({.mutants = true}, {message()});
  EXPECT_EQ(o.code, ok) << o.text;
  EXPECT_TRUE(test::says(o.text, "message  One message", "2 blocks", "holds", "the store is relaxed",
                         "data race", "reads data without order after", "1 of 1 mutants killed",
                         "1 protocol: 1 of 1 explorations hold, 1 of 1 mutants killed"));
}

TEST(check_command, no_line_is_wider_than_110_columns) {
  protocol_check p = message();
  p.explorations.front().name = p.mutants.front().name = std::string(200, 'x');
  p.explorations.push_back(message().explorations.front());
  p.explorations.push_back({std::string(60, 'y'), [](const check::bounds&) {
                              check::result r;
                              r.executions = 10'000'000;
                              r.steps = 300'000'000;
                              r.longest = 20'000;
                              r.seconds = 300;
                              r.found = check::verdict::too_long;
                              return r;
                            }});
  std::istringstream lines{run({.mutants = true}, {p}).text};
  for (std::string line; std::getline(lines, line);) EXPECT_LE(columns(line), 110u) << line;
}

TEST(check_command, an_exploration_that_finds_something_fails_and_says_what) {
  protocol_check p = message();
  p.explorations.push_back({"2 blocks, relaxed", explore_message<order::relaxed>});
  const outcome o = run({}, {p});
  EXPECT_EQ(o.code, failed);
  EXPECT_TRUE(test::says(o.text, "fails", "data race: rank 0 block 1 warp 0 reads data without order after",
                         "1 of 2 explorations hold"));
  EXPECT_EQ(o.text.find("store.relaxed"), std::string::npos) << "a trace was not asked for";
  EXPECT_TRUE(test::says(run({.trace = true}, {p}).text, "store.relaxed.device       flag = 0x1"));
}

TEST(check_command, a_mutant_that_is_not_noticed_as_what_it_is_fails_and_is_named) {
  protocol_check p = message();
  p.mutants.push_back(
      {"nothing is wrong", "E1", {check::verdict::data_race}, explore_message<order::release>});
  p.mutants.push_back(
      {"it is not a deadlock", "E1", {check::verdict::deadlock}, explore_message<order::relaxed>});
  const outcome o = run({}, {p});
  EXPECT_EQ(o.code, failed);
  EXPECT_TRUE(test::says(o.text, "1 of 3 mutants killed", "not noticed: nothing is wrong (nothing wrong)",
                         "not noticed: it is not a deadlock (data race)"));
}

TEST(check_command, a_bound_of_the_caller_cuts_short_without_failing_and_one_of_its_own_fails) {
  const outcome asked = run({.bound = 1}, {message()});
  EXPECT_EQ(asked.code, ok) << asked.text;
  EXPECT_TRUE(test::says(asked.text, "so far", "0 of 1 explorations hold, 1 cut short", "1 of 1 mutants"));
  protocol_check p = message();
  p.explorations.front().run = [](check::bounds limits) {
    limits.max_executions = 1;
    return explore_message<order::release>(limits);
  };
  EXPECT_EQ(run({}, {p}).code, failed);
}

TEST(check_command, a_seed_walks_through_random_schedules_and_repeats_itself) {
  const auto text = [](std::uint64_t seed) {
    const outcome o = run({.bound = 7, .seed = seed, .trace = true, .json = true}, {message()});
    EXPECT_EQ(o.code, ok) << o.text;
    return test::parsed_json(o.text)["protocols"][0]["explorations"][0];
  };
  const auto first = text(3);
  EXPECT_EQ(first["executions"], 7);
  EXPECT_EQ(first["verdict"], "nothing so far");
  EXPECT_EQ(first["trace"], text(3)["trace"]);
  std::set<std::string> traces;
  for (std::uint64_t seed = 0; seed < 20; ++seed) traces.insert(text(seed)["trace"]);
  EXPECT_GT(traces.size(), 1u);
}

TEST(check_command, a_long_finding_is_cut_unless_traces_are_wanted) {
  protocol_check p = message();
  p.mutants.front().run = [](const check::bounds&) {
    check::result r;
    r.found = check::verdict::data_race;
    r.text = "everybody waits:\n  one\n  two\n  three\n  four\n  five";
    return r;
  };
  const std::string text = run({.mutants = true}, {p}).text;
  EXPECT_TRUE(test::says(text, "everybody waits:\n", "        one\n", "three", "all of it with --trace"));
  EXPECT_EQ(text.find("five"), std::string::npos);
  EXPECT_TRUE(test::says(run({.mutants = true, .trace = true}, {p}).text, "        five\n"));
}

TEST(check_command, a_protocol_that_there_is_not_is_refused_with_the_names) {
  std::ostringstream out;
  const std::string text = test::message_of<invalid_argument>([&] {
    run_check({.protocols = {"mesage"}}, {message(), message()}, out);
  });
  EXPECT_TRUE(test::says(text, "\"mesage\"", "there are message, message"));
}

TEST(check_command, a_chosen_protocol_runs_alone) {
  protocol_check other = message();
  other.name = "other";
  const outcome o = run({.protocols = {"other"}}, {message(), other});
  EXPECT_TRUE(test::says(o.text, "other  One message", "1 protocol:"));
  EXPECT_EQ(o.text.find("message  One"), std::string::npos) << o.text;
}

TEST(check_command, many_at_a_time_are_reported_in_order) {
  std::vector<protocol_check> all;
  for (int i = 0; i < 20; ++i) {
    all.push_back(message());
    all.back().name = "message_" + std::to_string(i);
  }
  const auto report = test::parsed_json(run({.jobs = 8, .json = true}, all).text);
  ASSERT_EQ(report.at("protocols").size(), 20u);
  for (std::size_t i = 0; i < 20; ++i)
    EXPECT_EQ(report["protocols"][i]["name"], "message_" + std::to_string(i));
}

TEST(check_command, an_exception_of_an_exploration_comes_out) {
  protocol_check p = message();
  p.explorations.front().run = [](const check::bounds&) -> check::result {
    throw invalid_argument{"too big"};
  };
  std::ostringstream out;
  EXPECT_TRUE(
      test::says(test::message_of<invalid_argument>([&] { run_check({.jobs = 3}, {p}, out); }), "too big"));
}

TEST(check_command, json_has_what_the_table_has) {
  const auto report = test::parsed_json(run({.trace = true, .json = true}, {message()}).text);
  EXPECT_TRUE(report.at("all_well"));
  const auto& p = report.at("protocols").at(0);
  EXPECT_EQ(p.at("headers").at(0), "sim/check.hpp");
  EXPECT_EQ(p.at("explorations").at(0).at("verdict"), "holds");
  EXPECT_EQ(p.at("explorations").at(0).at("executions"), 2);
  EXPECT_TRUE(test::says(p.at("explorations").at(0).at("trace"), "store.release.device"));
  const auto& m = p.at("mutants").at(0);
  EXPECT_TRUE(m.at("killed"));
  EXPECT_EQ(m.at("breaks"), "E1");
  EXPECT_EQ(m.at("verdict"), "data race");
  EXPECT_TRUE(test::says(m.at("counterexample"), "store.relaxed.device"));
}

TEST(check_command, a_list_runs_nothing) {
  protocol_check p = message();
  p.explorations.front().run = [](const check::bounds&) -> check::result { throw std::logic_error{"ran"}; };
  EXPECT_TRUE(test::says(run({.list = true}, {p}).text, "message  One message", "1 explorations, 1 mutants"));
  EXPECT_EQ(test::parsed_json(run({.list = true, .json = true}, {p}).text)["protocols"][0]["mutants"][0],
            "the store is relaxed");
}

TEST(check_command, the_program_checks_a_small_protocol) {
  const test::child_result o = test::run_program({"check", "--protocol", "staged_pipeline"});
  EXPECT_EQ(o.exit_code, ok) << o.err;
  EXPECT_TRUE(test::says(o.out, "staged_pipeline", "3 stages of 2", "holds", "mutants killed"));
  const test::child_result refused = test::run_program({"check", "--protocol", "gates"});
  EXPECT_EQ(refused.exit_code, static_cast<int>(exit_code::bad_input));
  EXPECT_TRUE(test::says(refused.err, "\"gates\"", "arrival"));
  EXPECT_EQ(test::run_program({"check", "--bound", "0"}).exit_code, static_cast<int>(exit_code::bad_input));
  EXPECT_EQ(test::run_program({"check", "--seconds", "-1"}).exit_code,
            static_cast<int>(exit_code::bad_input));
}

}  // namespace
}  // namespace baton::cli
