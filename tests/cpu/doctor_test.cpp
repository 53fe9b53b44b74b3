#include "cli/commands/doctor.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "baton/error.hpp"
#include "cli/commands/doctor_findings.hpp"
#include "tests/support/parsed_json.hpp"

namespace baton::cli {
namespace {

using nlohmann::json;

/// Two H200 that reach each other, as far as the facts go.
device_facts healthy_machine() {
  device_facts f;
  f.host = {"a CPU", 32, 256ull << 30, 200ull << 30, 64ull << 30, "Linux"};
  f.built_with_cuda = true;
  f.driver = "580.159";
  f.driver_cuda = f.runtime_cuda = 13000;
  for (int i = 0; i < 2; ++i) {
    gpu_facts g;
    g.ordinal = i;
    g.name = "NVIDIA H200";
    g.major = 9;
    g.num_sms = 132;
    g.memory_bytes = 140ull << 30;
    g.memory_free_bytes = 139ull << 30;
    g.nvlinks = 18;
    g.exports_memory = g.has_kernels = true;
    g.reaches = {true, true};
    f.gpus.push_back(g);
    f.boards.push_back(g.name);
  }
  return f;
}

trials healthy_links() {
  probe::link_report l;
  l.between = "GPUs";
  l.method = "stores";
  l.devices = {0, 1};
  l.egress_gb_per_s = {{350, 349, 351}, {351, 350, 352}};
  l.flag_us = {0.75, 0.7, 0.8};
  l.flag_ordered_us = {1.35, 1.3, 1.4};
  trials t;
  t.links = l;
  t.lines = line_trial{4000, 900, ""};
  return t;
}

finding about(const std::vector<finding>& all, const std::string& subject) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const finding& f) { return f.subject == subject; });
  if (found == all.end()) {
    ADD_FAILURE() << "no finding about " << subject;
    return {};
  }
  return *found;
}

/// Every finding that is not a pass says what to do.
void expect_fixes(const std::vector<finding>& all) {
  for (const finding& f : all)
    EXPECT_EQ(f.what == verdict::pass, f.fix.empty()) << f.subject << ": " << f.fact;
}

TEST(doctor_findings, a_healthy_machine_passes_everything) {
  const auto all = judge(healthy_machine(), healthy_links(), device_kind::cuda);
  EXPECT_EQ(overall(all), verdict::pass);
  EXPECT_NE(about(all, "gpu 1").fact.find("18 NVLinks"), std::string::npos);
  expect_fixes(all);
}

TEST(doctor_findings, gpus_without_peer_access_fail_and_are_named) {
  device_facts f = healthy_machine();
  f.gpus[1].reaches = {false, true};
  const auto all = judge(f, healthy_links(), device_kind::cuda);
  EXPECT_EQ(about(all, "peer access").what, verdict::fail);
  EXPECT_NE(about(all, "peer access").fact.find("0-1"), std::string::npos);
  expect_fixes(all);
}

TEST(doctor_findings, an_old_driver_fails_with_the_version_to_install) {
  device_facts f = healthy_machine();
  f.driver_cuda = 12040;
  f.gpus.clear();
  const finding cuda = about(judge(f, {}, device_kind::cpu), "cuda");
  EXPECT_EQ(cuda.what, verdict::fail);
  EXPECT_NE(cuda.fix.find("580"), std::string::npos);
}

TEST(doctor_findings, a_build_without_cuda_on_a_machine_with_gpus_is_a_warning) {
  device_facts f = healthy_machine();
  f.built_with_cuda = false;
  f.gpus.clear();
  const finding cuda = about(judge(f, {}, device_kind::cpu), "cuda");
  EXPECT_EQ(cuda.what, verdict::warn);
  EXPECT_NE(cuda.fact.find("2 x NVIDIA H200"), std::string::npos);
  f.boards.clear();
  EXPECT_EQ(about(judge(f, {}, device_kind::cpu), "cuda").what, verdict::pass);
}

TEST(doctor_findings, a_gpu_of_another_generation_is_a_warning) {
  device_facts f = healthy_machine();
  f.gpus[0].major = 8;
  f.gpus[0].has_kernels = false;
  EXPECT_EQ(about(judge(f, {}, device_kind::cuda), "gpu 0").what, verdict::warn);
}

TEST(doctor_findings, slow_links_of_gpus_warn_and_those_of_a_cpu_do_not) {
  trials t = healthy_links();
  t.links->egress_gb_per_s[0].median = 40;
  t.links->flag_ordered_us.median = 9;
  auto all = judge(healthy_machine(), t, device_kind::cuda);
  EXPECT_EQ(about(all, "push bandwidth").what, verdict::warn);
  EXPECT_EQ(about(all, "flag latency").what, verdict::warn);
  expect_fixes(all);
  t.links->between = "threads of this CPU";
  all = judge(healthy_machine(), t, device_kind::cpu);
  EXPECT_EQ(about(all, "push bandwidth").what, verdict::pass);
}

TEST(doctor_findings, lines_that_arrive_in_parts_are_told_with_what_does_without) {
  trials t = healthy_links();
  const finding whole = about(judge(healthy_machine(), t, device_kind::cuda), "lines");
  EXPECT_EQ(whole.what, verdict::pass);
  EXPECT_EQ(whole.fact, "4000 lines of 128 bytes arrived whole, 900 of them seen while they changed");
  t.lines->torn = "rank 1 saw 3 of 2000 lines in part, of rank 0";
  const auto all = judge(healthy_machine(), t, device_kind::cuda);
  EXPECT_EQ(about(all, "lines").what, verdict::warn);
  EXPECT_NE(about(all, "lines").fact.find("rank 1 saw 3 of 2000"), std::string::npos);
  EXPECT_NE(about(all, "lines").fix.find("--transfer flags"), std::string::npos);
  expect_fixes(all);
}

TEST(doctor_findings, what_was_tried_and_failed_fails) {
  trials t;
  t.sharing_problem = "no sockets";
  t.links_problem = "stuck";
  const auto all = judge(healthy_machine(), t, device_kind::cuda);
  EXPECT_EQ(about(all, "processes").what, verdict::fail);
  EXPECT_EQ(about(all, "links").what, verdict::fail);
  EXPECT_EQ(overall(all), verdict::fail);
  expect_fixes(all);
}

TEST(doctor, json_parses_and_has_the_facts_of_this_machine) {
  std::ostringstream out;
  run_doctor({.json = true, .quick = true}, out);
  const json report = test::parsed_json(out.str());
  EXPECT_GT(report.at("host").at("cores").get<int>(), 0);
  EXPECT_GT(report.at("host").at("memory_bytes").get<std::uint64_t>(), 0u);
  EXPECT_TRUE(report.at("gpus").is_array());
  EXPECT_TRUE(report.at("links").is_null());
  EXPECT_TRUE(report.at("lines").is_null());
  const std::string device = report.at("device");
  EXPECT_TRUE(device == "cpu" || device == "cuda");
  for (const json& f : report.at("findings")) {
    const std::string v = f.at("verdict");
    EXPECT_TRUE(v == "PASS" || v == "WARN" || v == "FAIL") << v;
    EXPECT_FALSE(f.at("subject").get<std::string>().empty());
  }
}

TEST(doctor, measures_links_of_the_cpu_and_says_so_in_plain_text) {
  ::setenv("BATON_DEVICE", "cpu", 1);
  std::ostringstream out;
  EXPECT_EQ(run_doctor({}, out), 0) << out.str();
  ::unsetenv("BATON_DEVICE");
  EXPECT_NE(out.str().find("PASS  push bandwidth"), std::string::npos) << out.str();
  EXPECT_EQ(out.str().find("lines of 128 bytes"), std::string::npos) << "there is nothing to try";
  EXPECT_NE(out.str().find("PASS  processes"), std::string::npos) << out.str();
  EXPECT_EQ(out.str().find('\x1b'), std::string::npos) << "colours outside a terminal";
}

TEST(auto_device, obeys_the_environment_and_refuses_nonsense) {
  ::setenv("BATON_DEVICE", "cpu", 1);
  EXPECT_EQ(auto_device(), device_kind::cpu);
  ::setenv("BATON_DEVICE", "cuda", 1);
  EXPECT_EQ(auto_device(), device_kind::cuda);
  ::setenv("BATON_DEVICE", "tpu", 1);
  EXPECT_THROW(auto_device(), invalid_argument);
  ::unsetenv("BATON_DEVICE");
}

}  // namespace
}  // namespace baton::cli
