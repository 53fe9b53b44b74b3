#include "cli/generation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/seconds_since.hpp"
#include "baton/error.hpp"
#include "cli/model/byte_tokenizer.hpp"

namespace baton::cli {
namespace {

constexpr int default_new_tokens = 64;

int tokens_wanted(const prompt& p, int max_new) {
  if (!p.expected) return max_new == 0 ? default_new_tokens : max_new;
  const int expected = static_cast<int>(p.expected->size());
  return max_new == 0 ? expected : std::min(expected, max_new);
}

}  // namespace

std::vector<sequence> spread(const std::vector<prompt>& prompts, const model::model_config& config,
                             int num_ranks, int max_new) {
  if (max_new < 0) throw invalid_argument{fmt::format("--max-new {}: expected at least 1", max_new)};
  std::vector<sequence> sequences;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    sequence s;
    s.rank = static_cast<int>(i) % num_ranks;
    s.prompt = model::encode_bytes(prompts[i].text);
    s.max_new = tokens_wanted(prompts[i], max_new);
    if (s.prompt.empty())
      throw invalid_argument{fmt::format("prompt {} is empty: expected at least one byte", i)};
    // The last token is never fed back.
    const std::size_t positions = s.prompt.size() + static_cast<std::size_t>(s.max_new) - 1;
    const auto limit = static_cast<std::size_t>(config.max_position_embeddings);
    if (positions > limit) {
      throw invalid_argument{
          fmt::format("prompt {}: {} tokens and {} new ones need {} positions, but the model has {} "
                      "(max_position_embeddings): shorten the prompt or lower --max-new",
                      i, s.prompt.size(), s.max_new, positions, limit)};
    }
    sequences.push_back(std::move(s));
  }
  return sequences;
}

std::size_t bytes_of(const std::vector<sequence>& sequences, const model::model_config& c) {
  double positions = 0, tokens = 0;  // what a config.json asks for may be beyond 64 bits
  for (const sequence& s : sequences) {
    positions += static_cast<double>(s.prompt.size()) + s.max_new - 1;
    tokens += static_cast<double>(s.prompt.size());
  }
  const double key_and_value = 2.0 * sizeof(float) * c.num_key_value_heads * c.head_dim,
               residual = sizeof(float) * static_cast<double>(c.hidden_size);
  constexpr double most = 1e18;
  return static_cast<std::size_t>(
      std::min(most, positions * key_and_value * c.num_hidden_layers + tokens * residual));
}

std::vector<std::vector<int>> positions_of_ranks(const std::vector<sequence>& sequences, int num_ranks) {
  std::vector<std::vector<int>> positions(static_cast<std::size_t>(num_ranks));
  for (const sequence& s : sequences)
    positions[static_cast<std::size_t>(s.rank)].push_back(static_cast<int>(s.prompt.size()) + s.max_new - 1);
  return positions;
}

int most_tokens_of_a_rank(const std::vector<sequence>& sequences, int num_ranks) {
  std::vector<std::size_t> tokens(static_cast<std::size_t>(num_ranks), 0);
  for (const sequence& s : sequences) tokens[static_cast<std::size_t>(s.rank)] += s.prompt.size();
  return static_cast<int>(*std::max_element(tokens.begin(), tokens.end()));
}

generation_times generate_greedily(model::qwen3_moe& network, model::moe_backend& experts,
                                   std::vector<sequence>& sequences, int num_ranks,
                                   const std::function<void(std::size_t)>& on_token) {
  generation_times times;
  std::vector<model::kv_cache> caches;
  for (const sequence& s : sequences) {
    times.prompt_tokens += static_cast<int>(s.prompt.size());
    caches.push_back(network.make_cache());
  }
  for (bool is_first = true;; is_first = false) {
    std::vector<model::rank_step> steps(static_cast<std::size_t>(num_ranks));
    std::vector<std::vector<std::size_t>> members(steps.size());
    bool is_done = true;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      const sequence& s = sequences[i];
      if (static_cast<int>(s.generated.size()) >= s.max_new) continue;
      const auto rank = static_cast<std::size_t>(s.rank);
      steps[rank].push_back({&caches[i], is_first ? s.prompt : std::vector{s.generated.back()}});
      members[rank].push_back(i);
      is_done = false;
    }
    if (is_done) return times;
    const auto start = std::chrono::steady_clock::now();
    const model::step_logits logits = network.step(experts, steps);
    (is_first ? times.prefill_s : times.decode_s) += seconds_since(start);
    for (std::size_t rank = 0; rank < members.size(); ++rank) {
      for (std::size_t j = 0; j < members[rank].size(); ++j) {
        const std::size_t i = members[rank][j];
        sequences[i].generated.push_back(model::greedy_choice(logits[rank][j]));
        ++times.new_tokens;
        on_token(i);
      }
    }
  }
}

}  // namespace baton::cli
