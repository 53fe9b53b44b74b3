// Who goes where in the exchange benchmark: routings, recordings that nobody vouches for, replicas of busy experts.
#include "cli/bench/ep_routing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "baton/error.hpp"
#include "cli/bench/ep_replicas.hpp"
#include "cli/commands/bench_ep.hpp"
#include "cli/model/safetensors.hpp"
#include "cli/recorded_routing.hpp"
#include "tests/cpu/says.hpp"
#include "tests/cpu/temporary_folder.hpp"
#include "tests/cpu/tiny_moe.hpp"
#include "tests/support/json_lines.hpp"

namespace baton::cli {
namespace {

using test::says;

/// Two layers of three tokens, top-2 of 4 experts.
recorded_routing small_recording() {
  return {.num_experts = 4,
          .top_k = 2,
          .layers = {{{0, 1, 2, 3, 1, 0}, {.5f, .5f, .25f, .75f, .5f, .5f}},
                     {{3, 2, 3, 0, 3, 1}, {.5f, .5f, .5f, .5f, .5f, .5f}}}};
}

routing_case case_of(ep_routing kind, const recorded_routing* recorded = nullptr) {
  return {.kind = kind, .num_experts = 4, .top_k = 2, .num_ranks = 2, .seed = 3, .recorded = recorded};
}

TEST(bench_ep_routing, tokens_of_every_routing_have_distinct_experts_and_weights_that_sum_to_one) {
  const recorded_routing recorded = small_recording();
  for (const ep_routing kind :
       {ep_routing::uniform, ep_routing::zipf, ep_routing::trace, ep_routing::all_to_one}) {
    const routing_case c = case_of(kind, &recorded);
    ASSERT_EQ(why_not(c), "");
    const token_router route = router_of(c, 0);
    random_bits random{5};
    for (int t = 0; t < 100; ++t) {
      std::int32_t ids[2];
      float weights[2];
      route(random, ids, weights);
      EXPECT_NE(ids[0], ids[1]) << name(kind);
      for (const std::int32_t id : ids) EXPECT_TRUE(id >= 0 && id < (kind == ep_routing::all_to_one ? 2 : 4));
      EXPECT_NEAR(weights[0] + weights[1], 1.0f, 2 * 0x1p-24f);
    }
  }
}

TEST(bench_ep_routing, the_nth_most_popular_expert_of_zipf_is_chosen_in_proportion_to_one_nth) {
  constexpr int experts = 8, tokens = 40'000;
  double all = 0;
  for (int n = 1; n <= experts; ++n) all += 1.0 / n;
  routing_case c{.kind = ep_routing::zipf, .num_experts = experts, .top_k = 1, .seed = 11};
  const token_router route = router_of(c, 0);
  random_bits random{1};
  std::vector<std::int64_t> chosen(experts, 0);
  for (int t = 0; t < tokens; ++t) {
    std::int32_t id = 0;
    float weight = 0;
    route(random, {&id, 1}, {&weight, 1});
    ++chosen[static_cast<std::size_t>(id)];
  }
  std::vector<std::int64_t> sorted = chosen;
  std::sort(sorted.rbegin(), sorted.rend());
  for (int n = 1; n <= experts; ++n) {
    const double share = 1.0 / n / all, mean = tokens * share, deviation = std::sqrt(mean * (1 - share));
    EXPECT_NEAR(static_cast<double>(sorted[static_cast<std::size_t>(n - 1)]), mean, 5 * deviation) << n;
  }
  EXPECT_NE(sorted, chosen) << "which expert is popular is drawn, too";
  c.seed = 12;
  const std::vector<std::int64_t> other = past_loads(c, 0);
  EXPECT_NE(std::max_element(other.begin(), other.end()) - other.begin(),
            std::max_element(chosen.begin(), chosen.end()) - chosen.begin())
      << "by the seed";
}

TEST(bench_ep_routing, a_trace_gives_consecutive_tokens_of_the_sets_layer_and_begins_again_behind_the_last) {
  const recorded_routing recorded = small_recording();
  for (int set = 0; set < 4; ++set) {
    const std::vector<std::int32_t>& all = recorded.layers[static_cast<std::size_t>(set % 2)].ids;
    const token_router route = router_of(case_of(ep_routing::trace, &recorded), set);
    random_bits random{static_cast<std::uint64_t>(set)};
    std::size_t before = 3;
    for (int t = 0; t < 7; ++t) {
      std::vector<std::int32_t> ids(2);
      std::vector<float> weights(2);
      route(random, ids, weights);
      std::size_t token = 0;
      while (token < 3 && (all[2 * token] != ids[0] || all[2 * token + 1] != ids[1])) ++token;
      ASSERT_LT(token, 3u) << "no token of the layer";
      if (before < 3) EXPECT_EQ(token, (before + 1) % 3);
      before = token;
    }
  }
  EXPECT_EQ(past_loads(case_of(ep_routing::trace, &recorded), 1), (std::vector<std::int64_t>{1, 1, 1, 3}));
}

TEST(bench_ep_routing, what_cannot_be_routed_is_said_by_the_option_that_asks_for_it) {
  const recorded_routing recorded = small_recording();
  routing_case c = case_of(ep_routing::trace);
  EXPECT_TRUE(says(why_not(c), "--trace"));
  c.recorded = &recorded;
  c.num_experts = 5;
  EXPECT_TRUE(says(why_not(c), "--routing trace", "top-2 of 4", "top-2 of 5"));
  c = case_of(ep_routing::all_to_one);
  c.top_k = 3;
  EXPECT_TRUE(says(why_not(c), "all-to-one", "2 experts", "3"));
  c.top_k = 5;
  EXPECT_TRUE(says(why_not(c), "--top-k: 5", "4 experts"));
}

TEST(bench_ep_routing, the_recording_of_the_small_model_is_read_whole) {
  const recorded_routing all = read_recorded_routing(test::tiny_moe_folder() / "routing.safetensors");
  EXPECT_EQ(all.num_experts, 64);
  EXPECT_EQ(all.top_k, 8);
  ASSERT_EQ(all.layers.size(), 3u);
  for (std::size_t layer = 0; layer < 3; ++layer) {
    ASSERT_EQ(all.layers[layer].ids.size(), 32768u * 8);
    for (std::size_t first = 0; first < 32768 * 8; first += 8) {
      float sum = 0;
      for (std::size_t k = 0; k < 8; ++k) sum += all.layers[layer].weights[first + k];
      ASSERT_NEAR(sum, 1.0f, 8 * 0x1p-24f);
    }
    const std::vector<std::int64_t> loads = loads_of(all, layer);
    EXPECT_GT(*std::max_element(loads.begin(), loads.end()), 32768 * 8 / 64 * 2) << "a busy expert";
  }
}

/// What reading a recording of one layer says.
std::string refusal_of(const std::vector<std::int32_t>& ids, const std::vector<float>& weights,
                       const model::tensor_shape& shape) {
  const test::temporary_folder folder;
  const model::tensor_to_write tensors[] = {
      {"layers.0.topk_ids", model::dtype::i32, shape, std::as_bytes(std::span{ids})},
      {"layers.0.topk_weights", model::dtype::f32, shape, std::as_bytes(std::span{weights})}};
  model::write_safetensors(folder / "r.safetensors", tensors);
  return test::message_of<bad_file>([&] { read_recorded_routing(folder / "r.safetensors"); });
}

TEST(bench_ep_routing, a_recording_that_cannot_be_is_refused_by_tensor_and_token) {
  const std::vector<float> even{.5f, .5f, .5f, .5f};
  EXPECT_TRUE(says(refusal_of({0, 1, 2, -1}, even, {2, 2}), "topk_ids", "token 1", "expert -1"));
  EXPECT_TRUE(says(refusal_of({0, 1, 2, 1024}, even, {2, 2}), "token 1", "expert 1024"));
  EXPECT_TRUE(says(refusal_of({3, 3, 2, 1}, even, {2, 2}), "token 0", "twice"));
  EXPECT_TRUE(says(refusal_of({0, 1, 2, 3}, {.5f, NAN, 1, 1}, {2, 2}), "topk_weights", "token 0", "nan"));
  EXPECT_TRUE(says(refusal_of({0, 1, 2, 3}, {.5f, 0, 1, 1}, {2, 2}), "weight 0"));
  EXPECT_TRUE(says(refusal_of({}, {}, {0, 2}), "[0, 2]"));
  EXPECT_TRUE(says(refusal_of({}, {}, {2, 0}), "[2, 0]"));
  EXPECT_TRUE(says(refusal_of({0, 1, 2, 3}, even, {4}), "topk_ids"));
}

TEST(bench_ep_replicas, ids_become_those_of_replicas_in_turn_and_none_stays_none) {
  expert_placement p;
  p.num_ranks = 2;
  p.max_replicas = 2;
  p.logical_to_physical = {0, 3, 1, -1, 2, -1};
  p.replica_counts = {2, 1, 1};
  const std::int32_t ids[] = {0, 1, 0, 2, -1, 0};
  EXPECT_EQ(physical_ids(p, ids, 2, 0), (std::vector<std::int32_t>{0, 1, 3, 2, -1, 0}));
  EXPECT_EQ(physical_ids(p, ids, 2, 1), (std::vector<std::int32_t>{3, 1, 0, 2, -1, 3}));
}

bench_ep_options routed_run() {
  bench_ep_options o;
  o.ranks = 2;
  o.hidden = {128};
  o.top_k = {2};
  o.experts = {8};
  o.tokens = {24};
  o.formats = {token_format::bf16};
  o.device = device_kind::cpu;
  o.repeats = 1;
  o.json = true;
  return o;
}

std::vector<nlohmann::json> points_of(const bench_ep_options& o) {
  std::ostringstream out;
  EXPECT_EQ(run_bench_ep(o, out), 0);
  return test::json_lines(out.str());
}

double busiest(const nlohmann::json& point) {
  const auto rows = point["rows_of_ranks"].get<std::vector<double>>();
  return *std::max_element(rows.begin(), rows.end());
}

TEST(bench_ep_replicas, replicas_of_busy_experts_even_out_the_rows_of_ranks_and_every_sum_is_checked) {
  bench_ep_options o = routed_run();
  o.routings = {ep_routing::uniform, ep_routing::zipf, ep_routing::all_to_one};
  o.replicas = {0, 4};
  const std::vector<nlohmann::json> points = points_of(o);
  ASSERT_EQ(points.size(), 12u) << "three routings, with and without replicas, in two layouts";
  for (std::size_t i = 0; i < 12; ++i) {
    const nlohmann::json& point = points[i];
    EXPECT_EQ(point["checked"], true);
    EXPECT_EQ(point["axes"]["experts"], 8);
    EXPECT_EQ(point["axes"].value("replicas", 0), i % 4 < 2 ? 0 : 4);
    EXPECT_LE(point["dispatch_rate"]["wire_bytes"],
              point["dispatch_rate"]["wire_bytes_without_deduplication"]);
  }
  EXPECT_EQ(points[4]["axes"]["routing"], "zipf");
  for (const std::size_t layout : {0u, 1u}) {
    EXPECT_EQ(busiest(points[8 + layout]), 2 * 24 * 2) << "all rows are rank 0's";
    EXPECT_EQ(busiest(points[10 + layout]), 2 * 24) << "each of its experts has a replica on rank 1";
  }
}

TEST(bench_ep_routing, bytes_are_those_of_the_drawn_routing) {
  bench_ep_options o = routed_run();
  o.ranks = 3;
  o.experts = {9};
  o.routings = {ep_routing::all_to_one};
  const std::vector<nlohmann::json> points = points_of(o);
  ASSERT_EQ(points.size(), 2u);
  const auto bytes = [&](std::size_t point, const char* of, const char* what) {
    return points[point][of][what].get<double>();
  };
  const double message = 256 + 16;
  EXPECT_EQ(bytes(0, "dispatch_rate", "wire_bytes"), 24 * 2 * message);
  EXPECT_EQ(bytes(0, "dispatch_rate", "wire_bytes_in"), 2 * 24 * 2 * message) << "of two other ranks";
  EXPECT_EQ(bytes(1, "dispatch_rate", "wire_bytes"), 2 * 512 + 24 * 1024) << "ids to both, tokens to one";
  EXPECT_EQ(bytes(1, "dispatch_rate", "wire_bytes_without_deduplication"), 2 * 512 + 24 * 2 * 1024);
  EXPECT_EQ(bytes(1, "combine_rate", "wire_bytes"), 2 * 24 * 512) << "rank 0 answers two ranks";
}

TEST(bench_ep_routing, a_trace_is_measured_where_the_sizes_are_the_recorded_ones_and_left_out_elsewhere) {
  bench_ep_options o = routed_run();
  o.routings = {ep_routing::trace};
  EXPECT_TRUE(says(test::message_of<invalid_argument>([&] { points_of(o); }), "--trace"));
  o.trace = test::tiny_moe_folder() / "routing.safetensors";
  EXPECT_TRUE(says(test::message_of<invalid_argument>([&] { points_of(o); }), "top-8 of 64", "top-2 of 8"));
  o.experts = {8, 64};
  o.top_k = {8};
  o.layouts = {ep_layout::per_rank};
  o.replicas = {0, 8};
  const std::vector<nlohmann::json> points = points_of(o);
  ASSERT_EQ(points.size(), 4u);
  EXPECT_TRUE(says(points[0]["skipped"].get<std::string>(), "top-8 of 64", "top-8 of 8"));
  EXPECT_EQ(points[2]["checked"], true);
  EXPECT_EQ(points[2]["axes"]["routing"], "trace");
  EXPECT_EQ(points[3]["checked"], true);
  EXPECT_LE(busiest(points[3]), busiest(points[2]));
}

TEST(bench_ep, every_combination_of_sizes_has_a_heading_of_its_own) {
  bench_ep_options o = routed_run();
  o.json = false;
  o.hidden = {128, 256};
  o.top_k = {1, 2};
  o.experts = {4, 6};
  o.tokens = {2};
  o.routings = {ep_routing::zipf};
  o.replicas = {2};
  std::ostringstream out;
  ASSERT_EQ(run_bench_ep(o, out), 0);
  for (const char* hidden : {"128", "256"})
    for (const char* top_k : {"1", "2"})
      for (const char* experts : {"4", "6"})
        EXPECT_TRUE(says(out.str(), std::string{"hidden "} + hidden + ", top-" + top_k + " of " + experts +
                                        " experts and 2 replicas, zipf routing"));
  EXPECT_TRUE(says(out.str(), "times the mean", "eager"));
  std::istringstream lines{out.str()};
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

TEST(bench_ep, replicas_that_cannot_be_are_refused) {
  bench_ep_options o = routed_run();
  o.replicas = {9};
  EXPECT_TRUE(says(test::message_of<invalid_argument>([&] { points_of(o); }), "--replicas: 9", "8"));
  for (const int none : {-1, std::numeric_limits<int>::max()}) {
    o.replicas = {none};
    EXPECT_TRUE(says(test::message_of<invalid_argument>([&] { points_of(o); }),
                     "--replicas: " + std::to_string(none), "is not from 0 to"));
  }
}

TEST(bench_ep, experts_that_are_too_many_are_refused_before_they_are_counted_with_others) {
  bench_ep_options o = routed_run();
  o.replicas = {1};
  for (const int experts : {1 << 30, std::numeric_limits<int>::max()}) {
    o.experts = {8, experts};
    EXPECT_EQ(test::message_of<invalid_argument>([&] { points_of(o); }),
              "--experts: " + std::to_string(experts) + " is outside [1, 1024]");
  }
}

}  // namespace
}  // namespace baton::cli
