// The benchmark of layers of experts: a run on the CPU, what it tells, and what it refuses.
#include "cli/commands/bench_moe.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "baton/error.hpp"
#include "cli/bench/layer_experts.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/command_lines.hpp"
#include "tests/support/json_lines.hpp"

namespace baton::cli {
namespace {

using test::message_of;
using test::says;

bench_moe_options small_moe() {
  bench_moe_options o;
  o.device = device_kind::cpu;
  o.tokens = {5};
  o.repeats = 2;
  o.json = true;
  return o;
}

TEST(bench_moe, a_run_on_the_cpu_checks_and_times_layer_exchange_and_experts) {
  for (const ep_layout layout : {ep_layout::per_expert, ep_layout::per_rank}) {
    bench_moe_options o = small_moe();
    o.layout = layout;
    o.formats = {token_format::bf16, token_format::blockwise_fp8};
    std::ostringstream out;
    EXPECT_EQ(run_bench_moe(o, out), 0);
    std::vector<std::string> points;
    for (const nlohmann::json& j : test::json_lines(out.str())) {
      EXPECT_EQ(j["schema"], "baton.bench.moe/1");
      EXPECT_EQ(j["checked"], true);
      EXPECT_GT(j["worst_part_of_bound"], 0) << "nothing is exact";
      EXPECT_LE(j["worst_part_of_bound"], 1);
      for (const char* part : {"layer", "exchange", "experts_alone"}) {
        EXPECT_EQ(j[part]["samples_us"].size(), 2u);
        EXPECT_GT(j[part]["median_us"], 0);
      }
      EXPECT_EQ(j["calls"].size(), 3u) << "dispatch, experts, combine";
      EXPECT_EQ(j["experts_weight_bytes"], (j["weights"] == "bf16" ? 2 : 1) * 3 * 4 * 256 * 128);
      points.push_back(j["weights"].get<std::string>() + " " + j["format"].get<std::string>());
    }
    EXPECT_EQ(points, (std::vector<std::string>{"bf16 bf16", "bf16 fp8", "fp8 bf16", "fp8 fp8"}));
  }
}

TEST(bench_moe, two_micro_batches_are_timed_beside_the_whole_and_checked) {
  bench_moe_options o = small_moe();
  o.tokens = {6};
  o.rounds = 2;
  o.micro_batches = 2;
  o.exchange_sms = {24, 8};
  std::ostringstream out;
  EXPECT_EQ(run_bench_moe(o, out), 0);
  int points = 0;
  for (const nlohmann::json& j : test::json_lines(out.str())) {
    EXPECT_EQ(j["checked"], true);
    ASSERT_EQ(j["overlapped"].size(), 2u);
    EXPECT_EQ(j["overlapped"][1]["exchange_sms"], 8);
    EXPECT_EQ(j["overlapped"][1]["layer"]["samples_us"].size(), 2u);
    EXPECT_GT(j["overlapped"][1]["layer"]["median_us"], 0);
    ++points;
  }
  EXPECT_EQ(points, 2) << "bf16 and fp8";
}

TEST(bench_moe, experts_that_share_weights_have_results_of_their_own) {
  const auto worlds = world::local(1, device_kind::cpu);
  const layer_experts<bfloat16> whole{worlds, {4, 64, 32, weight_format::bf16}};
  layer_experts<bfloat16> first = whole.sharing_weights(1), second = whole.sharing_weights(1);
  EXPECT_EQ(&first.weights(0), &whole.weights(0));
  ep_config config;
  config.num_experts = 4;
  config.top_k = 1;
  config.hidden = 64;
  config.num_max_tokens_per_rank = 2;
  ep_session session{worlds, config, {.num_sets = 1, .forms = {}}};
  for (layer_experts<bfloat16>* one : {&first, &second}) {
    session.use(*one);
    session.run_round(0, ep_form::fused_layer);
  }
  EXPECT_NE(first.output(0), second.output(0));
}

TEST(bench_moe, the_table_names_what_was_measured) {
  bench_moe_options o = small_moe();
  o.json = false;
  o.weights = {weight_format::block_fp8};
  std::ostringstream out;
  EXPECT_EQ(run_bench_moe(o, out), 0);
  EXPECT_TRUE(says(out.str(), "A layer of experts", "exchange"));
  EXPECT_TRUE(says(out.str(), "small", "fp8"));
}

TEST(bench_moe, what_is_out_of_range_or_not_served_is_refused_by_name) {
  const auto refusal = [](auto change) {
    bench_moe_options o = small_moe();
    change(o);
    std::ostringstream out;
    return message_of<invalid_argument>([&] { run_bench_moe(o, out); });
  };
  EXPECT_TRUE(says(refusal([](bench_moe_options& o) { o.repeats = 0; }), "--repeats: 0"));
  EXPECT_TRUE(says(refusal([](bench_moe_options& o) { o.tokens = {0}; }), "--tokens: 0"));
  EXPECT_TRUE(says(refusal([](bench_moe_options& o) { o.micro_batches = 3; }), "--micro-batches: 3"));
  EXPECT_TRUE(says(refusal([](bench_moe_options& o) { o.micro_batches = 2; }), "--tokens: 5", "even"));
  EXPECT_TRUE(says(refusal([](bench_moe_options& o) { o.exchange_sms = {0}; }), "--exchange-sms: 0"));
  EXPECT_TRUE(
      says(refusal([](bench_moe_options& o) { o.models = {"mine"}; }), "--models: \"mine\" is not one of"));
}

/// How often experts are run.
struct counted_experts : layer_experts<bfloat16> {
  using layer_experts::layer_experts;
  void enqueue(int rank, const received_tokens& rows, stream_ref stream) override {
    layer_experts::enqueue(rank, rows, stream);
    ++runs;
  }
  int runs = 0;
};

TEST(bench_moe, experts_of_a_session_run_once_in_each_layer_and_never_in_an_exchange_alone) {
  const auto worlds = world::local(2, device_kind::cpu);
  ep_config config;
  config.num_experts = 8;
  config.top_k = 2;
  config.hidden = 256;
  config.num_max_tokens_per_rank = 3;
  counted_experts experts{worlds, {8, 256, 128, weight_format::bf16}};
  ep_session session{worlds, config, {.num_sets = 1, .forms = {}}};
  session.use(experts);
  session.run_round(0, ep_form::fused_layer);
  EXPECT_EQ(experts.runs, 2);
  const std::vector<bfloat16> whole = session.output_of(0);
  session.run_round(0, ep_form::fused);
  EXPECT_EQ(experts.runs, 2);
  session.run_round(0, ep_form::split_layer);
  EXPECT_EQ(experts.runs, 4);
  EXPECT_EQ(session.output_of(0), whole) << "both forms of a layer give the same bits";
}

}  // namespace
}  // namespace baton::cli
