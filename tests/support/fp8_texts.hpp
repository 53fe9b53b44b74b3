#pragma once
// What the small model with weights in FP8 says, on any device, and how far that may be from what another one says.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "cli/generation.hpp"
#include "cli/model/byte_tokenizer.hpp"
#include "cli/prompts.hpp"
#include "tests/support/fp8_tiny_moe.hpp"
#include "tests/support/layer_cases.hpp"

namespace baton::test {

/// Independent relative errors of at most u = 2^-4, spread evenly, have a root mean square of u / sqrt(3). Six of them meet in an
/// expert's output, one for each side of its three products; so a layer is off by sqrt(6) u / sqrt(3).
inline const double typical_fp8_layer = std::sqrt(2.0) * 0x1p-4;
/// Layers look at normalised inputs: a relative error of what they get is one of what they add. Where they do not make it grow,
/// the errors that three layers add, each of a part of the sum, are at most these together.
inline const double typical_fp8_logits = std::sqrt(3.0) * typical_fp8_layer;

/// Logits of every position of a text.
inline std::vector<float> logits_of_text(model::qwen3_moe& network, model::moe_backend& experts,
                                         const std::string& text) {
  model::kv_cache cache = network.make_cache();
  const std::vector<model::rank_step> ranks{{{&cache, model::encode_bytes(text)}}};
  return network.step(experts, ranks, model::logits_of::all_positions)[0][0];
}

inline std::vector<std::string> fp8_continuations(const cli::exchange_options& options) {
  const auto prompts = cli::read_expectations(tiny_moe_folder() / "greedy.json");
  cli::exchange_moe experts{fp8_tiny_moe(), all_layers(), options};
  model::qwen3_moe network{fp8_tiny_moe()};
  std::vector<cli::sequence> sequences = cli::spread(prompts, fp8_tiny_moe().config(), options.num_ranks, 0);
  cli::generate_greedily(network, experts, sequences, options.num_ranks, [](std::size_t) {});
  std::vector<std::string> texts;
  for (const cli::sequence& s : sequences) texts.push_back(model::decode_bytes(s.generated));
  return texts;
}

/// Where a text parts from the recorded one, `weights` and `experts` give its letter and the recorded one nearly the same logit:
/// both are within typical_fp8_logits of what they stand for.
inline void expect_near_letters_where_texts_part(const std::vector<std::string>& texts, const char* recorded,
                                                 const model::checkpoint& weights,
                                                 model::moe_backend& experts) {
  model::qwen3_moe network{weights};
  const auto expectations = cli::read_expectations(tiny_moe_folder() / recorded);
  ASSERT_EQ(texts.size(), expectations.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string& expected = *expectations[i].expected;
    const auto at = std::mismatch(texts[i].begin(), texts[i].end(), expected.begin());
    if (at.first == texts[i].end()) continue;
    const std::string before = expectations[i].text + std::string{texts[i].begin(), at.first};
    const std::vector<float> logits = logits_of_text(network, experts, before);
    const auto last = std::span{logits}.last(256);
    const double mean = std::accumulate(last.begin(), last.end(), 0.0) / 256;
    double squares = 0;
    for (const float v : last) squares += (static_cast<double>(v) - mean) * (static_cast<double>(v) - mean);
    const auto letter = [&](char c) { return static_cast<double>(last[static_cast<unsigned char>(c)]); };
    EXPECT_LT(letter(*at.second) - letter(*at.first), 2 * typical_fp8_logits * std::sqrt(squares / 256)) << i;
  }
}

}  // namespace baton::test
