#include "cli/model/qwen3_moe.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/model/byte_tokenizer.hpp"
#include "cli/model/reference_moe.hpp"
#include "tests/cpu/says.hpp"
#include "tests/cpu/temporary_folder.hpp"
#include "tests/cpu/tiny_moe.hpp"
#include "tests/support/parsed_json.hpp"

namespace {

using namespace baton;
using namespace baton::model;
using baton::test::message_of;
using baton::test::says;

std::vector<std::int32_t> fixture_sequence(std::size_t index) {
  const auto all = to_int32(test::fixtures().at("tokens", {4, 256}));
  const auto first = all.begin() + static_cast<std::ptrdiff_t>(index * 256);
  return {first, first + 256};
}

std::vector<float> row(const std::vector<float>& values, std::size_t index) {
  const auto first = values.begin() + static_cast<std::ptrdiff_t>(index * 256);
  return {first, first + 256};
}

/// The fixtures' sequences in one step over three ranks, the second without any.
struct fixture_run {
  std::vector<std::vector<routed_tokens>> entered;  // [layer][rank]
  step_logits logits;
};
fixture_run run_fixtures(moe_backend& experts) {
  qwen3_moe model{test::tiny_moe()};
  fixture_run run;
  model.observe_moe([&](int, std::span<const routed_tokens> ranks) {
    run.entered.emplace_back(ranks.begin(), ranks.end());
  });
  std::vector<kv_cache> caches(4, model.make_cache());
  std::vector<rank_step> ranks(3);
  ranks[0] = {{&caches[0], fixture_sequence(0)}, {&caches[1], fixture_sequence(1)}};
  ranks[2] = {{&caches[2], fixture_sequence(2)}, {&caches[3], fixture_sequence(3)}};
  run.logits = model.step(experts, ranks, logits_of::all_positions);
  return run;
}
const fixture_run& reference_run() {
  static const fixture_run run = [] {
    reference_moe experts{test::tiny_moe()};
    return run_fixtures(experts);
  }();
  return run;
}

/// We round what enters each MoE layer to bf16, the fixtures' logits come from a pass that did not. A layer's input moves
/// by at most 2^-8 of its norm, and normalised layers pass relative changes on about one to one: one unit of bf16 a
/// layer, in the root mean square over all logits. (Single logits move further where rounding swaps two experts of nearly
/// equal probability, so they have no such limit. Without the rounding the relative error is 1e-6.)
constexpr double logit_tolerance = 3 * 0x1p-8;

/// Root mean square of the logits' errors over that of the logits.
double logit_error(const step_logits& logits) {
  const auto expected = to_float(test::fixtures().at("logits", {4, 16, 256}));
  double errors = 0, squares = 0;
  for (std::size_t s = 0; s < 4; ++s) {
    const auto& ours = logits[s / 2 * 2][s % 2];
    for (std::size_t p = 0; p < 16; ++p) {
      for (std::size_t v = 0; v < 256; ++v) {
        const double right = expected[(s * 16 + p) * 256 + v], error = ours[16 * p * 256 + v] - right;
        errors += error * error;
        squares += right * right;
      }
    }
  }
  return std::sqrt(errors / squares);
}

TEST(qwen3_moe, logits_are_the_fixtures_up_to_bf16_rounding) {
  EXPECT_LT(logit_error(reference_run().logits), logit_tolerance);
  EXPECT_TRUE(reference_run().logits[1].empty());
}

/// Spoils the MoE output of one layer.
class off_by_a_tenth : public moe_backend {
 public:
  void run(int layer, std::span<const routed_tokens> ranks, std::span<std::vector<float>> outputs) override {
    right_.run(layer, ranks, outputs);
    for (auto& rank : outputs) {
      for (float& v : rank) v *= layer == 1 ? 1.1f : 1.0f;
    }
  }

 private:
  reference_moe right_{test::tiny_moe()};
};

TEST(qwen3_moe, a_layer_that_is_off_by_a_tenth_would_be_seen_in_the_logits) {
  off_by_a_tenth experts;
  EXPECT_GT(logit_error(run_fixtures(experts).logits), logit_tolerance);
}

TEST(qwen3_moe, the_first_moe_layer_gets_the_fixtures_input_within_one_bf16_step) {
  const auto expected = to_bfloat16(test::fixture(0, "moe_input"));
  auto ours = reference_run().entered[0][0].hidden;
  const auto& rest = reference_run().entered[0][2].hidden;
  ours.insert(ours.end(), rest.begin(), rest.end());
  ASSERT_EQ(ours.size(), expected.size());
  std::size_t different = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    different += !(ours[i] == expected[i]);
    const float a = static_cast<float>(ours[i]), b = static_cast<float>(expected[i]);
    // A step of bf16, and what fp32 sums of 256 products leave of values around 1 that cancel.
    ASSERT_LE(std::fabs(a - b), 0x1p-7f * std::max(std::fabs(a), std::fabs(b)) + 256 * 0x1p-24f) << i;
  }
  EXPECT_LT(different, ours.size() / 100) << "fp32 noise tips few values over";
}

TEST(qwen3_moe, a_sequence_gets_the_same_bits_alone_with_others_and_token_by_token) {
  const auto ids = fixture_sequence(3);
  qwen3_moe model{test::tiny_moe()};
  reference_moe experts{test::tiny_moe()};
  kv_cache whole = model.make_cache(), stepwise = model.make_cache();
  const std::vector<rank_step> prefill{{{&whole, ids}}};
  const auto alone = model.step(experts, prefill, logits_of::all_positions);
  EXPECT_EQ(alone[0][0], reference_run().logits[2][1]);
  for (std::size_t i = 0; i < 40; ++i) {
    const std::vector<rank_step> one{{{&stepwise, {ids[i]}}}};
    EXPECT_EQ(model.step(experts, one)[0][0], row(alone[0][0], i)) << i;
  }
}

/// All five prompts at once, over `num_ranks` ranks in turn.
std::vector<std::string> generate(int num_ranks, const nlohmann::json& prompts, int new_tokens) {
  qwen3_moe model{test::tiny_moe()};
  reference_moe experts{test::tiny_moe()};
  std::vector<kv_cache> caches(prompts.size(), model.make_cache());
  std::vector<rank_step> ranks(static_cast<std::size_t>(num_ranks));
  const auto place = [&](std::size_t i) -> auto& {
    return ranks[i % ranks.size()][i / ranks.size()];
  };
  for (std::size_t i = 0; i < caches.size(); ++i) {
    ranks[i % ranks.size()].push_back({&caches[i], encode_bytes(prompts[i]["prompt"].get<std::string>())});
  }
  std::vector<std::string> texts(caches.size());
  for (int n = 0; n < new_tokens; ++n) {
    const auto logits = model.step(experts, ranks);
    for (std::size_t i = 0; i < caches.size(); ++i) {
      const std::int32_t next = greedy_choice(logits[i % ranks.size()][i / ranks.size()]);
      texts[i] += decode_bytes(std::vector{next});
      place(i).ids = {next};
    }
  }
  return texts;
}

TEST(qwen3_moe, greedy_text_is_the_expected_one_for_all_prompts) {
  const auto prompts = test::parsed_json(test::read_file(test::tiny_moe_folder() / "greedy.json"));
  for (const int num_ranks : {1, 3, 8}) {
    const auto texts = generate(num_ranks, prompts, 96);
    ASSERT_EQ(texts.size(), 5u);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(texts[i], prompts[i]["greedy_continuation"].get<std::string>())
          << num_ranks << " ranks, prompt " << i;
    }
  }
}

class failing_moe : public moe_backend {
 public:
  void run(int layer, std::span<const routed_tokens> ranks, std::span<std::vector<float>> outputs) override {
    if (layer == 1) throw stuck{"a peer never came", {}};
    for (std::size_t r = 0; r < ranks.size(); ++r) outputs[r].assign(ranks[r].hidden.size(), 0.0f);
  }
};

TEST(qwen3_moe, a_step_that_fails_leaves_sequences_as_they_were) {
  qwen3_moe model{test::tiny_moe()};
  reference_moe experts{test::tiny_moe()};
  kv_cache cache = model.make_cache(), untouched = model.make_cache();
  const std::vector<rank_step> first{{{&cache, {1, 2, 3}}}}, second{{{&cache, {4}}}};
  model.step(experts, first);
  failing_moe failing;
  EXPECT_TRUE(says(message_of<stuck>([&] { model.step(failing, second); }), "never came"));
  EXPECT_EQ(cache.positions(), 3);
  const auto again = model.step(experts, second);
  const std::vector<rank_step> whole{{{&untouched, {1, 2, 3, 4}}}};
  EXPECT_EQ(again, model.step(experts, whole));
}

TEST(qwen3_moe, steps_that_make_no_sense_are_refused) {
  qwen3_moe model{test::tiny_moe()};
  reference_moe experts{test::tiny_moe()};
  kv_cache cache = model.make_cache();
  const auto refusal = [&](std::vector<rank_step> ranks) {
    return message_of<invalid_argument>([&] { model.step(experts, ranks); });
  };
  EXPECT_TRUE(says(refusal({{{&cache, {}}}}), "at least one new token"));
  EXPECT_TRUE(says(refusal({{{nullptr, {1}}}}), "no cache"));
  EXPECT_TRUE(says(refusal({{{&cache, {1}}}, {{&cache, {2}}}}), "of their own"));
  EXPECT_TRUE(says(refusal({{{&cache, {256}}}}), "0 to 255", "found 256"));
  EXPECT_TRUE(says(refusal({{{&cache, {-1}}}}), "found -1"));
  EXPECT_TRUE(says(refusal({{{&cache, std::vector<std::int32_t>(1025, 1)}}}),
                   "max_position_embeddings = 1024", "1025"));
  EXPECT_EQ(cache.positions(), 0);
}

TEST(qwen3_moe, no_token_is_chosen_among_logits_that_are_not_finite) {
  EXPECT_EQ(greedy_choice(std::vector<float>{1, 3, 3, 2}), 1);
  for (const float odd : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const std::vector<float> logits{1, odd, 3};
    const std::string text = test::message_of<invalid_argument>([&] { greedy_choice(logits); });
    EXPECT_TRUE(test::says(text, "for token 1", "weights")) << text;
  }
}

TEST(qwen3_moe, ranks_may_all_be_empty) {
  qwen3_moe model{test::tiny_moe()};
  reference_moe experts{test::tiny_moe()};
  EXPECT_EQ(model.step(experts, std::vector<rank_step>(2)), step_logits(2));
}

TEST(qwen3_moe, time_is_kept_for_each_phase) {
  qwen3_moe model{test::tiny_moe()};
  reference_moe experts{test::tiny_moe()};
  kv_cache cache = model.make_cache();
  model.step(experts, std::vector<rank_step>{{{&cache, {1, 2, 3}}}});
  for (const double phase :
       {model.times().attention, model.times().router, model.times().moe, model.times().head}) {
    EXPECT_GT(phase, 0);
  }
}

TEST(byte_tokenizer, bytes_go_both_ways_and_other_vocabularies_are_refused) {
  const std::string all{"\0a\xff\x80", 4};
  EXPECT_EQ(encode_bytes(all), (std::vector<std::int32_t>{0, 97, 255, 128}));
  EXPECT_EQ(decode_bytes(encode_bytes(all)), all);
  model_config config = test::tiny_moe().config();
  EXPECT_NO_THROW(require_byte_vocabulary(config));
  config.vocab_size = 151936;
  EXPECT_TRUE(
      says(message_of<unsupported>([&] { require_byte_vocabulary(config); }), "151936", "tokenizer.json"));
}

}  // namespace
