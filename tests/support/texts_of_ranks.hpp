#pragma once
// Greedy texts of the small model by ranks in processes, each of which has its share of the prompts and of the experts.
#include <fmt/format.h>

#include <stdexcept>

#include "cli/exchange_moe.hpp"
#include "cli/generation.hpp"
#include "cli/model/byte_tokenizer.hpp"
#include "cli/prompts.hpp"
#include "tests/cpu/tiny_moe.hpp"

namespace baton::test {

/// This rank's prompts, in the exchange that `options` asks for. All ranks make as many steps, as all continuations are as long.
/// @throws std::runtime_error  a text is not the expected one
inline void expect_texts_of_rank(const world& w, cli::exchange_options options) {
  options.num_ranks = w.size();
  options.device = w.device();
  const std::vector<cli::prompt> prompts = cli::read_expectations(tiny_moe_folder() / "greedy.json");
  std::vector<cli::sequence> all = cli::spread(prompts, tiny_moe().config(), w.size(), 0), own;
  options.max_tokens_per_rank = cli::most_tokens_of_a_rank(all, w.size());
  std::vector<std::string> expected;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].max_new != all[0].max_new) throw std::runtime_error{"texts of other lengths"};
    if (all[i].rank != w.rank()) continue;
    own.push_back(all[i]);
    own.back().rank = 0;
    expected.push_back(prompts[i].expected.value());
  }
  if (own.empty()) throw std::runtime_error{"more ranks than prompts"};
  std::vector<int> layers;
  for (int layer = 0; layer < tiny_moe().config().num_hidden_layers; ++layer) layers.push_back(layer);
  cli::exchange_moe experts{tiny_moe(), layers, options, w};
  model::qwen3_moe network{tiny_moe()};
  cli::generate_greedily(network, experts, own, 1, [](std::size_t) {});
  for (std::size_t i = 0; i < own.size(); ++i)
    if (const std::string found = model::decode_bytes(own[i].generated); found != expected[i])
      throw std::runtime_error{fmt::format("expected {}, found {}", expected[i], found)};
}

/// Both layouts with one level, and in groups of several ranks per_rank with two.
inline std::vector<cli::exchange_options> ways_of_texts(int group) {
  std::vector<cli::exchange_options> all(group > 1 ? 3 : 2);
  for (cli::exchange_options& way : all) way.p2p_group_size = group;
  all[0].layout = ep_layout::per_expert;
  if (group > 1) all[2].levels = ep_levels::two;
  return all;
}

}  // namespace baton::test
