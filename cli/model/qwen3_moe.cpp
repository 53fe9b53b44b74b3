#include "cli/model/qwen3_moe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>

#include "base/dot.hpp"
#include "baton/device_facts.hpp"
#include "cli/model/attention.hpp"
#include "cli/model/host_attention.hpp"
#include "cli/model/norm.hpp"

namespace baton::model {
namespace {

/// Adds the time it lives to a phase.
class stopwatch {
 public:
  explicit stopwatch(double& phase) : phase_{phase} {}
  stopwatch(const stopwatch&) = delete;
  stopwatch& operator=(const stopwatch&) = delete;
  ~stopwatch() { phase_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }

 private:
  double& phase_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

struct layer {
  attention self_attention;
  std::vector<float> post_attention_norm;
  router route;
};

void require_sequence(const model_config& c, const sequence_step& sequence, std::set<const kv_cache*>& seen) {
  if (!sequence.cache || !seen.insert(sequence.cache).second || sequence.ids.empty()) {
    throw invalid_argument{
        fmt::format("ranks: expected sequences with a cache of their own and at least one new token, "
                    "found {} and {} tokens",
                    sequence.cache ? "a cache" : "no cache", sequence.ids.size())};
  }
  const std::size_t length = size(sequence.cache->positions()) + sequence.ids.size();
  if (length > size(c.max_position_embeddings)) {
    throw invalid_argument{fmt::format(
        "ranks: expected sequences of at most max_position_embeddings = {} tokens, found {}; shorten the "
        "prompt or generate less",
        c.max_position_embeddings, length)};
  }
  for (const std::int32_t id : sequence.ids) {
    if (id >= 0 && id < c.vocab_size) continue;
    throw invalid_argument{fmt::format("ranks: expected token ids 0 to {}, found {}", c.vocab_size - 1, id)};
  }
}

}  // namespace

struct qwen3_moe::state {
  model_config config;
  std::vector<float> embeddings, own_head, final_norm;
  std::vector<layer> layers;
  phase_times times;
  moe_observer observer;
  std::unique_ptr<host_attention> on_host;
  attention_backend* attended_by = nullptr;

  const std::vector<float>& head() const { return own_head.empty() ? embeddings : own_head; }
  float eps() const { return static_cast<float>(config.rms_norm_eps); }
  std::vector<float> embed(const rank_step& rank) const;
  void attend(layer& l, int index, const rank_step& rank, std::vector<float>& x);
  std::vector<bfloat16> moe_input(const layer& l, const std::vector<float>& x) const;
  void run_experts(int index, moe_backend& experts, std::vector<std::vector<float>>& x);
  std::vector<std::vector<float>> logits(const rank_step& rank, const std::vector<float>& x,
                                         logits_of which) const;
};

std::vector<float> qwen3_moe::state::embed(const rank_step& rank) const {
  const std::size_t hidden = size(config.hidden_size);
  std::vector<float> x;
  for (const auto& sequence : rank) {
    for (const std::int32_t id : sequence.ids) {
      const float* row = embeddings.data() + size(id) * hidden;
      x.insert(x.end(), row, row + hidden);
    }
  }
  return x;
}

void qwen3_moe::state::attend(layer& l, int index, const rank_step& rank, std::vector<float>& x) {
  std::vector<attention::newest> sequences;
  for (const auto& sequence : rank)
    sequences.push_back({sequence.cache, static_cast<int>(sequence.ids.size())});
  l.self_attention.add_to(x.data(), index, sequences, *attended_by);
}

std::vector<bfloat16> qwen3_moe::state::moe_input(const layer& l, const std::vector<float>& x) const {
  const std::size_t hidden = size(config.hidden_size);
  std::vector<bfloat16> rounded(x.size());
  std::vector<float> row(hidden);
  for (std::size_t first = 0; first < x.size(); first += hidden) {
    rms_norm(x.data() + first, l.post_attention_norm, eps(), row.data());
    for (std::size_t i = 0; i < hidden; ++i) rounded[first + i] = bfloat16{row[i]};
  }
  return rounded;
}

void qwen3_moe::state::run_experts(int index, moe_backend& experts, std::vector<std::vector<float>>& x) {
  const layer& l = layers[size(index)];
  std::vector<routed_tokens> routed;
  std::vector<std::vector<float>> outputs(x.size());
  {
    const stopwatch watch{times.router};
    for (const auto& rank : x) routed.push_back(l.route.route(moe_input(l, rank)));
  }
  if (observer) observer(index, routed);
  {
    const stopwatch watch{times.moe};
    experts.run(index, routed, outputs);
  }
  for (std::size_t r = 0; r < x.size(); ++r) {
    if (outputs[r].size() != x[r].size()) {
      throw error{fmt::format("layer {}: expected {} values from the experts for rank {}, found {}", index,
                              x[r].size(), r, outputs[r].size())};
    }
    for (std::size_t i = 0; i < x[r].size(); ++i) x[r][i] += outputs[r][i];
  }
}

std::vector<std::vector<float>> qwen3_moe::state::logits(const rank_step& rank, const std::vector<float>& x,
                                                         logits_of which) const {
  const std::size_t hidden = size(config.hidden_size), vocab = size(config.vocab_size);
  std::vector<std::vector<float>> all;
  std::size_t end = 0;
  for (const auto& sequence : rank) {
    end += sequence.ids.size();
    const std::size_t rows = which == logits_of::all_positions ? sequence.ids.size() : 1;
    std::vector<float> normed(rows * hidden);
    for (std::size_t r = 0; r < rows; ++r) {
      rms_norm(x.data() + (end - rows + r) * hidden, final_norm, eps(), normed.data() + r * hidden);
    }
    all.emplace_back(rows * vocab);
    multiply_rows(head().data(), vocab, hidden, normed.data(), rows, all.back().data());
  }
  return all;
}

qwen3_moe::qwen3_moe(const checkpoint& weights) : state_{std::make_unique<state>()} {
  state_->config = weights.config();
  state_->on_host = std::make_unique<host_attention>(state_->config);
  state_->attended_by = state_->on_host.get();
  require_host_memory(weights.dense_bytes(),
                      {"the weights outside the experts, as fp32", "use a smaller model"});
  state_->embeddings = weights.embeddings();
  if (!weights.config().tie_word_embeddings) state_->own_head = weights.head();
  state_->final_norm = weights.final_norm();
  for (int l = 0; l < weights.config().num_hidden_layers; ++l) {
    layer_weights w = weights.layer(l);
    auto norm = std::move(w.post_attention_norm);
    state_->layers.push_back(
        {attention{weights.config(), l, std::move(w)}, std::move(norm), weights.layer_router(l)});
  }
}

qwen3_moe::qwen3_moe(qwen3_moe&&) noexcept = default;
qwen3_moe& qwen3_moe::operator=(qwen3_moe&&) noexcept = default;
qwen3_moe::~qwen3_moe() = default;

const model_config& qwen3_moe::config() const {
  return state_->config;
}
const phase_times& qwen3_moe::times() const {
  return state_->times;
}
void qwen3_moe::attend_with(attention_backend& backend) {
  state_->attended_by = &backend;
}
void qwen3_moe::observe_moe(moe_observer observer) {
  state_->observer = std::move(observer);
}

kv_cache qwen3_moe::make_cache() const {
  return kv_cache{config().num_hidden_layers, config().num_key_value_heads * config().head_dim};
}

step_logits qwen3_moe::step(moe_backend& experts, std::span<const rank_step> ranks, logits_of which) {
  std::set<const kv_cache*> seen;
  for (const auto& rank : ranks) {
    for (const auto& sequence : rank) require_sequence(config(), sequence, seen);
  }
  std::vector<std::vector<float>> x;
  {
    const stopwatch watch{state_->times.head};
    for (const auto& rank : ranks) x.push_back(state_->embed(rank));
  }
  for (int l = 0; l < config().num_hidden_layers; ++l) {
    {
      const stopwatch watch{state_->times.attention};
      for (std::size_t r = 0; r < ranks.size(); ++r)
        state_->attend(state_->layers[size(l)], static_cast<int>(r), ranks[r], x[r]);
    }
    state_->run_experts(l, experts, x);
  }
  const stopwatch watch{state_->times.head};
  step_logits logits;
  for (std::size_t r = 0; r < ranks.size(); ++r) logits.push_back(state_->logits(ranks[r], x[r], which));
  for (const auto& rank : ranks) {
    for (const auto& sequence : rank) sequence.cache->commit(static_cast<int>(sequence.ids.size()));
  }
  return logits;
}

std::int32_t greedy_choice(std::span<const float> logits) {
  for (std::size_t i = 0; i < logits.size(); ++i)
    if (!std::isfinite(logits[i]))  // NaN compares with nothing
      throw invalid_argument{
          fmt::format("logits: expected finite values, found {} for token {}; weights of the model are "
                      "damaged, or too large",
                      logits[i], i)};
  return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace baton::model
