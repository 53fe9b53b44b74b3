#pragma once
// The MoE layers of the small model through the exchange, on any device.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <tuple>
#include <vector>

#include "cli/exchange_moe.hpp"
#include "cli/layer_error.hpp"
#include "tests/cpu/tiny_moe.hpp"

namespace baton::test {

/// Rank r gets tokens [r * n / ranks, (r + 1) * n / ranks).
inline std::vector<model::routed_tokens> in_blocks(const model::routed_tokens& all, int num_ranks) {
  const model::model_config& config = tiny_moe().config();
  std::vector<model::routed_tokens> ranks;
  for (int r = 0; r < num_ranks; ++r) {
    const int begin = all.tokens * r / num_ranks, end = all.tokens * (r + 1) / num_ranks;
    const auto part = [&](const auto& values, int width) {
      return std::vector(values.begin() + begin * width, values.begin() + end * width);
    };
    ranks.push_back({end - begin, part(all.hidden, config.hidden_size),
                     part(all.topk_idx, config.num_experts_per_tok),
                     part(all.topk_weights, config.num_experts_per_tok)});
  }
  return ranks;
}

/// The layer's output for `tokens`, spread over the ranks of `experts` in blocks.
inline std::vector<float> run_layer(cli::exchange_moe& experts, int layer,
                                    const model::routed_tokens& tokens) {
  const auto ranks = in_blocks(tokens, experts.rank(0).size());
  std::vector<std::vector<float>> parts(ranks.size());
  experts.run(layer, ranks, parts);
  std::vector<float> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

inline std::vector<int> all_layers() {
  return {0, 1, 2};
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// Sanitizers look for faults of memory, not of values, and are slow; 2, 3 and 4 ranks run the code that 1 and 8 run.
inline constexpr int share_of_fixtures = 8;
inline constexpr int numbers_of_ranks[] = {1, 8};
#else
inline constexpr int share_of_fixtures = 1;
inline constexpr int numbers_of_ranks[] = {1, 2, 3, 4, 8};
#endif

/// The fixtures' tokens of a layer; with a sanitizer the first of them.
inline model::routed_tokens checked_tokens(int layer) {
  return in_blocks(fixture_tokens(layer), share_of_fixtures)[0];
}

/// Bounds of a layer on checked_tokens, spread in blocks; computed once.
inline const model::bounded_moe& fixture_bounds(int layer, const cli::exchange_options& options) {
  static std::map<std::tuple<int, device_kind, token_format, token_format, int>, model::bounded_moe> known;
  const int ranks_that_round = options.layout == ep_layout::per_rank ? options.num_ranks : 0;
  const std::tuple key{layer, options.device, options.format, options.combine_format, ranks_that_round};
  if (!known.contains(key)) {
    ep_config config;
    config.num_experts = tiny_moe().config().num_experts;
    config.format = options.format;
    config.combine_format = options.combine_format;
    config.layout = options.layout;
    const model::routed_tokens tokens = checked_tokens(layer);
    std::vector<int> tokens_of_ranks;
    for (const model::routed_tokens& rank : in_blocks(tokens, options.num_ranks))
      tokens_of_ranks.push_back(rank.tokens);
    known[key] = model::moe_error_bound(tiny_moe().experts(layer, 0, config.num_experts), tokens,
                                        cli::rounding_of(config, options.device, tokens_of_ranks));
  }
  return known[key];
}

/// How far `found`, the output for checked_tokens, is from the fixtures' moe_output.
inline cli::layer_error fixture_error(int layer, const cli::exchange_options& options,
                                      const std::vector<float>& found) {
  std::vector<float> expected = model::to_float(fixture(layer, "moe_output"));
  expected.resize(found.size());
  return cli::measure(fixture_bounds(layer, options), expected, found, tiny_moe().config().hidden_size);
}

/// The bound above allows all errors to point the same way. Independent ones of relative size at most u, spread evenly,
/// have a root mean square of u / sqrt(3). bf16: u = 2^-8, from rounding the experts' rows. fp8: u = 2^-4, which
/// reaches the output on two paths, through gate and up; mxfp8: 2^-3, what its largest values lose; e2m1: 2^-2. Layout per_rank
/// rounds partial sums to bf16, or e4m3, once more.
inline double typical_error(const cli::exchange_options& options) {
  const double u = options.format == token_format::blockwise_fp8 ? 0x1p-4
                   : options.format == token_format::mxfp8       ? 0x1p-3
                                                                 : 0x1p-2;
  const double of_format = options.format == token_format::bf16 ? 0x1p-8 : std::sqrt(2.0) * u;
  const double of_sums = options.combine_format == token_format::bf16 ? 0x1p-8 : 0x1p-4;
  return std::hypot(of_format, options.layout == ep_layout::per_rank ? of_sums : 0.0) / std::sqrt(3.0);
}

/// Every layer on the fixtures' tokens is within its bound, and the same bits come out twice.
inline void check_layers(const cli::exchange_options& options) {
  cli::exchange_moe experts{tiny_moe(), all_layers(), options};
  for (const int layer : all_layers()) {
    const std::vector<float> found = run_layer(experts, layer, checked_tokens(layer));
    const cli::layer_error error = fixture_error(layer, options, found);
    EXPECT_LE(error.worst.ratio, 1.0)
        << "layer " << layer << ", token " << error.worst.token << ", column " << error.worst.column
        << ": found " << error.worst.found << ", expected " << error.worst.exact << ", bound "
        << error.worst.bound;
    EXPECT_GT(error.rms_relative, 0.0) << "bf16 and fp8 cannot be exact";
    EXPECT_LT(error.rms_relative, typical_error(options)) << "layer " << layer;
    testing::Test::RecordProperty("layer_" + std::to_string(layer) + "_rms_relative",
                                  std::to_string(error.rms_relative));
    EXPECT_EQ(run_layer(experts, layer, checked_tokens(layer)), found) << "layer " << layer << ", second run";
  }
}

}  // namespace baton::test
