// The benchmark of attention: its points, what it refuses, and a whole run on the CPU.
#include "cli/commands/bench_attention.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "baton/error.hpp"
#include "cli/bench/attention_point.hpp"
#include "cli/bench/attention_session.hpp"
#include "cli/bench/decode_session.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/json_lines.hpp"

namespace baton::cli {
namespace {

using test::message_of;
using test::says;

bench_attention_options small_attention() {
  bench_attention_options o;
  o.device = device_kind::cpu;
  o.heads = {"4,2,16", "2,1,8"};
  o.lengths = {40};
  o.repeats = 2;
  return o;
}

std::vector<nlohmann::json> points_of(bench_attention_options o) {
  o.json = true;
  std::ostringstream out;
  EXPECT_EQ(run_bench_attention(o, out), 0);
  return test::json_lines(out.str());
}

TEST(bench_attention, a_run_on_the_cpu_checks_and_times_each_mask_of_each_size) {
  bench_attention_options o = small_attention();
  o.masks = {attention_mask::dense, attention_mask::causal, attention_mask::window};
  o.window = 10;
  std::vector<std::string> points;
  for (const nlohmann::json& j : points_of(o)) {
    EXPECT_EQ(j["schema"], "baton.bench.attention/1");
    EXPECT_EQ(j["checked"], true);
    EXPECT_EQ(j["burst_samples_us"].size(), 2u);
    EXPECT_TRUE(j["sustained_us"].is_null() && j["of_cublas"].is_null() && j["cublas_8192_tflops"].is_null())
        << "measured on GPUs only";
    EXPECT_EQ(j["window"].is_null(), j["mask"] != "window");
    points.push_back(j["heads"].dump() + "/" + j["kv_heads"].dump() + " " + j["head_dim"].dump() + " " +
                     j["length"].dump() + " " + j["mask"].get<std::string>() + " " + j["flops"].dump());
  }
  EXPECT_EQ(points, (std::vector<std::string>{"4/2 16 40 dense 409600.0", "4/2 16 40 causal 209920.0",
                                              "4/2 16 40 window 90880.0", "2/1 8 40 dense 102400.0",
                                              "2/1 8 40 causal 52480.0", "2/1 8 40 window 22720.0"}));
}

TEST(bench_attention, both_formats_and_several_sequences_are_checked) {
  bench_attention_options o = small_attention();
  o.heads = {"2,2,24"};
  o.batch = 3;
  o.formats = {operand_format::bf16, operand_format::fp16};
  std::string formats;
  for (const nlohmann::json& j : points_of(o)) {
    EXPECT_EQ(j["checked"], true);
    EXPECT_EQ(j["batch"], 3);
    EXPECT_EQ(j["bytes"], 2.0 * 3 * 40 * 24 * (2 + 2) * 2);
    formats += j["format"].get<std::string>() + " " + j["mask"].get<std::string>() + ", ";
  }
  EXPECT_EQ(formats, "bf16 dense, fp16 dense, bf16 causal, fp16 causal, ");
}

TEST(bench_attention, layers_of_a_model_have_their_heads_and_windows) {
  bench_attention_options o = small_attention();
  o.heads = {};
  o.models = {"gemma-4-31b"};
  o.lengths = {3};
  std::vector<std::string> points;
  for (const nlohmann::json& j : points_of(o))
    points.push_back(j["layer"].get<std::string>() + " " + j["heads"].dump() + "/" + j["kv_heads"].dump() +
                     " " + j["head_dim"].dump() + " " + j["mask"].get<std::string>() + " " +
                     j["window"].dump());
  EXPECT_EQ(points, (std::vector<std::string>{"global 32/4 512 dense null", "global 32/4 512 causal null",
                                              "sliding 32/16 256 window 1024"}));
}

TEST(bench_attention, every_model_s_layers_are_heads_that_attention_takes) {
  for (const attention_heads& layer : attention_layers()) {
    varlen_attention_problem<bfloat16> p;
    p.heads = layer.heads;
    p.kv_heads = layer.kv_heads;
    p.head_dim = layer.head_dim;
    EXPECT_EQ(supports(device_kind::cpu, p).why_not, "") << layer.model;
  }
}

TEST(bench_attention, a_table_says_why_nothing_stands_beside) {
  std::ostringstream out;
  EXPECT_EQ(run_bench_attention(small_attention(), out), 0);
  EXPECT_TRUE(says(out.str(), "on the CPU", "no cuBLAS beside: ", "4/2 of 16", "causal", "sustained"))
      << out.str();
}

TEST(bench_attention, what_no_kernel_does_is_told_with_the_reason_and_is_no_failure) {
  bench_attention_options o = small_attention();
  o.heads = {"2,1,12"};
  const std::vector<nlohmann::json> points = points_of(o);
  ASSERT_EQ(points.size(), 2u);
  EXPECT_TRUE(says(points[0]["why_not"].get<std::string>(), "head_dim is 12"));
  EXPECT_EQ(points[0]["checked"], false);
  EXPECT_TRUE(points[0]["burst_median_us"].is_null());
  o.json = false;
  std::ostringstream out;
  EXPECT_EQ(run_bench_attention(o, out), 0);
  EXPECT_TRUE(says(out.str(), "no kernel: varlen_attention: head_dim is 12")) << out.str();
}

TEST(bench_attention, what_is_no_size_model_or_list_of_heads_is_refused) {
  const auto refused = [](auto change) {
    bench_attention_options o = small_attention();
    change(o);
    std::ostringstream out;
    return message_of<invalid_argument>([&] { run_bench_attention(o, out); });
  };
  for (const char* word : {"", "16", "16,16", "16,16,0", "a,b,c", "1,1,8,8"})
    EXPECT_TRUE(
        says(refused([&](bench_attention_options& o) { o.heads = {word}; }), "--heads: ", "is not H,K,D"))
        << word;
  EXPECT_TRUE(says(refused([](bench_attention_options& o) { o.models = {"gemma"}; }), "--models: \"gemma\"",
                   "gemma-4-31b", "qwen3-next"));
  EXPECT_TRUE(
      says(refused([](bench_attention_options& o) { o.lengths = {0}; }), "--lengths: 0 is not from 1"));
  EXPECT_TRUE(says(refused([](bench_attention_options& o) { o.batch = 0; }), "--batch: 0 is not from 1"));
  EXPECT_TRUE(says(refused([](bench_attention_options& o) { o.window = 0; }), "--window: 0 is not from 1"));
  EXPECT_TRUE(says(refused([](bench_attention_options& o) { o.repeats = 0; }), "--repeats: 0 is not from 1"));
  EXPECT_TRUE(says(refused([](bench_attention_options& o) { o.sustained_ms = -1; }), "--sustained-ms: -1"));
  EXPECT_TRUE(says(refused([](bench_attention_options& o) { o.num_sms = -1; }), "--sms: -1"));
  EXPECT_TRUE(
      says(refused([](bench_attention_options& o) { o.formats = {operand_format::e4m3}; }), "--format: "));
  EXPECT_TRUE(says(refused([](bench_attention_options& o) { o.caches = {cache_format::e4m3}; }),
                   "--cache: ", "--decode"));
}

bench_attention_options small_decode() {
  bench_attention_options o = small_attention();
  o.decode = true;
  o.batch = 3, o.rows = 2;
  return o;
}

TEST(bench_attention, decoding_is_checked_and_told_by_the_bytes_of_its_keys) {
  std::vector<std::string> points;
  for (const nlohmann::json& j : points_of(small_decode())) {
    EXPECT_EQ(j["schema"], "baton.bench.attention_decode/1");
    EXPECT_EQ(j["checked"], true);
    EXPECT_EQ(j["burst_samples_us"].size(), 2u);
    EXPECT_GT(j["gb_per_s"].get<double>(), 0);
    EXPECT_EQ(j["caches"], 2);
    EXPECT_TRUE(j["of_copy"].is_null() && j["sustained_us"].is_null()) << "measured on GPUs only";
    points.push_back(j["batch"].dump() + "x" + j["rows"].dump() + " " + j["heads"].dump() + "/" +
                     j["kv_heads"].dump() + " " + j["keys"].dump() + " " + j["flops"].dump() + " " +
                     j["bytes"].dump());
  }
  EXPECT_EQ(points, (std::vector<std::string>{"3x2 4/2 40 60672.0 16896.0", "3x2 2/1 40 15168.0 4224.0"}));
}

TEST(bench_attention, a_cache_of_e4m3_is_told_by_its_bytes_beside_that_of_q_s_type) {
  bench_attention_options o = small_decode();
  o.heads = {"4,2,16"};
  o.caches = {cache_format::same, cache_format::e4m3};
  const std::vector<nlohmann::json> points = points_of(o);
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[0]["cache_format"], "bf16");
  EXPECT_EQ(points[1]["cache_format"], "e4m3");
  EXPECT_EQ(points[1]["checked"], true);
  EXPECT_EQ(points[1]["format"], "bf16");
  EXPECT_EQ(points[0]["bytes"], 2.0 * 3 * 16 * 2 * (40 * 2 + 2 * 4));
  EXPECT_EQ(points[1]["bytes"], 2.0 * 3 * 16 * (40 * 2 + 2 * 2 * 4));
  std::ostringstream out;
  EXPECT_EQ(run_bench_attention(o, out), 0);
  EXPECT_TRUE(says(out.str(), "cache", "e4m3")) << out.str();
}

TEST(bench_attention, decoding_of_layers_with_windows_reads_these) {
  bench_attention_options o = small_decode();
  o.heads = {};
  o.models = {"gemma-4-31b"};
  o.lengths = {1100};
  o.batch = 1;
  o.rows = 1;
  const std::vector<nlohmann::json> points = points_of(o);
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[0]["bytes"], 4.0 * 512 * (1100 * 4 + 32));
  EXPECT_EQ(points[1]["bytes"], 4.0 * 256 * (1024 * 16 + 32));
  EXPECT_EQ(points[1]["checked"], true);
}

TEST(bench_attention, a_table_of_decoding_has_rates_beside_a_copy) {
  std::ostringstream out;
  EXPECT_EQ(run_bench_attention(small_decode(), out), 0);
  EXPECT_TRUE(says(out.str(), "of few rows, on the CPU", "of copy", "4/2 of 16")) << out.str();
}

TEST(bench_attention_session, wrong_factors_of_a_cache_of_e4m3_are_noticed) {
  const world cpu = world::local(1, device_kind::cpu)[0];
  const decode_size size{{{}, {}, 4, 2, 32}, 2, 3, 70, 16, operand_format::bf16, 0, operand_format::e4m3};
  using problem = paged_attention_problem<bfloat16, float8_e4m3>;
  const auto found = [&](auto damage) {
    decode_session<bfloat16, float8_e4m3> session{cpu, size};
    return session.first_wrong([&](problem p, stream_ref stream) {
      damage(p);
      paged_attention(cpu, p, nullptr, stream);
    });
  };
  EXPECT_EQ(found([](problem&) {}), "");
  const auto notices = [&](auto damage) { EXPECT_TRUE(says(found(damage), "out[", "expected", "within")); };
  notices([](problem& p) { p.k_descale = nullptr; });
  notices([](problem& p) { p.v_descale = nullptr; });
  notices([](problem& p) { std::swap(p.k_descale, p.v_descale); });
}

TEST(bench_attention, what_decoding_does_not_take_is_refused) {
  const auto refused = [](auto change) {
    bench_attention_options o = small_decode();
    change(o);
    std::ostringstream out;
    return message_of<invalid_argument>([&] { run_bench_attention(o, out); });
  };
  EXPECT_TRUE(says(refused([](bench_attention_options& o) { o.rows = 0; }), "--rows: 0 is not from 1"));
  EXPECT_TRUE(
      says(refused([](bench_attention_options& o) { o.page_size = 0; }), "--page-size: 0 is not from 1"));
  EXPECT_TRUE(
      says(refused([](bench_attention_options& o) { o.masks = {attention_mask::dense}; }), "--mask: "));
}

TEST(bench_attention_session, wrong_lengths_scales_pages_and_caches_of_decoding_are_noticed) {
  const world cpu = world::local(1, device_kind::cpu)[0];
  const decode_size size{{{}, {}, 4, 2, 32}, 2, 3, 70};
  using problem = paged_attention_problem<bfloat16>;
  const auto found = [&](auto damage) {
    decode_session<bfloat16> session{cpu, size};
    return session.first_wrong([&](problem p, stream_ref stream) {
      damage(p);
      paged_attention(cpu, p, nullptr, stream);
    });
  };
  EXPECT_EQ(found([](problem&) {}), "");
  const auto notices = [&](auto damage) { EXPECT_TRUE(says(found(damage), "out[", "expected", "within")); };
  notices([](problem& p) { p.options.causal = false; });
  notices([](problem& p) { p.options.scale = 0.18f; });
  notices([](problem& p) { std::swap(p.k_cache, p.v_cache); });
  notices([](problem& p) { p.layout = kv_layout::hnd; });
  notices([](problem& p) { p.page_table += 1; });
  notices([&](problem& p) { p.k_cache += p.num_pages * p.page_size * p.kv_heads * p.head_dim; });
}

/// What `damage` makes of the problem that a session measures.
template <class Value, class Damage>
std::string found_by_session(const attention_size& size, Damage damage) {
  const world cpu = world::local(1, device_kind::cpu)[0];
  attention_session<Value> session{cpu, size};
  return session.first_wrong([&](varlen_attention_problem<Value> p, stream_ref stream) {
    damage(p);
    varlen_attention(cpu, p, nullptr, stream);
  });
}

template <class Value>
void expect_session_notices() {
  const attention_size size{{{}, {}, 4, 2, 32, 20}, 2, 70, attention_mask::window};
  using problem = varlen_attention_problem<Value>;
  EXPECT_EQ(found_by_session<Value>(size, [](problem&) {}), "");
  const auto notices = [&](auto damage) {
    EXPECT_TRUE(says(found_by_session<Value>(size, damage), "out[", "expected", "within"));
  };
  notices([](problem& p) { p.options.causal = false; });
  notices([](problem& p) { p.options.window_left += 1; });
  notices([](problem& p) { p.options.scale = 0.18f; });  // and not 0.1768
  notices([](problem& p) { std::swap(p.k, p.v); });
  notices([](problem& p) { p.batch = 1, p.total_q = p.total_k = 70; });
}

TEST(bench_attention_session, the_right_result_passes_and_wrong_masks_scales_and_operands_are_noticed) {
  expect_session_notices<bfloat16>();
  expect_session_notices<float16>();
}

TEST(bench_attention_point, a_wrong_result_has_no_times) {
  const attention_point p{{{{}, {}, 1, 1, 8}, 1, 8}, {}, "out[0, 0, 0, 0] = 1, expected 2", {}};
  const nlohmann::json j = to_json({}, p);
  EXPECT_EQ(j["checked"], false);
  EXPECT_TRUE(j["burst_tflops"].is_null() && j["burst_median_us"].is_null() && j["model"].is_null());
  std::ostringstream out;
  print({}, p, out);
  EXPECT_TRUE(says(out.str(), "WRONG: out[0, 0, 0, 0] = 1, expected 2"));
}

TEST(bench_attention_point, rates_are_told_beside_those_of_cublas_in_the_same_run) {
  attention_run run;
  run.cublas_us = 2.0 * 8192 * 8192 * 8192 / 800e6;
  run.cublas_sustained_us = 2.0 * 8192 * 8192 * 8192 / 500e6;
  const attention_size size{{{}, {}, 1, 1, 250}, 1, 1000};  // 10^9 operations
  const attention_point p{size, {}, {}, {3, 2.5, 1}, 4};
  EXPECT_DOUBLE_EQ(to_json(run, p)["of_cublas"].get<double>(), 0.5);
  EXPECT_DOUBLE_EQ(to_json(run, p)["of_cublas_sustained"].get<double>(), 0.5);
  std::ostringstream out;
  print(run, p, out);
  EXPECT_TRUE(says(out.str(), "2.5", "400", "50.0 %", "250")) << out.str();
}

TEST(bench_attention_point, a_window_that_is_longer_than_the_sequence_is_causal) {
  attention_size size{{{}, {}, 1, 1, 8, 100}, 1, 40, attention_mask::window};
  EXPECT_EQ(size.pairs(), 40 * 41 / 2);
  size.of.window = 1;
  EXPECT_EQ(size.pairs(), 40);
}

}  // namespace
}  // namespace baton::cli
