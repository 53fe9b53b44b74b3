#include "cli/model/attention.hpp"

#include <cstddef>

#include "base/dot.hpp"
#include "cli/model/norm.hpp"

namespace baton::model {
namespace {

/// Each head of a row normalised and turned.
void finish_heads(float* row, int heads, std::span<const float> weight, float eps, const rotation& turn) {
  for (int h = 0; h < heads; ++h) {
    float* head = row + size(h) * weight.size();
    rms_norm(head, weight, eps, head);
    turn.apply(head);
  }
}

}  // namespace

attention::attention(const model_config& config, int layer, layer_weights weights)
    : config_{config},
      layer_{layer},
      weights_{std::move(weights)},
      rotation_{config.head_dim, config.rope_theta} {}

void attention::add_to(float* x, int rank, std::span<const newest> sequences, attention_backend& backend) {
  const std::size_t hidden = size(config_.hidden_size);
  const std::size_t q_row = size(config_.num_attention_heads) * size(config_.head_dim);
  std::size_t tokens = 0;
  for (const newest& of : sequences) tokens += size(of.tokens);
  q_.resize(tokens * q_row);
  heads_.resize(q_.size());
  std::vector<attended_sequence> attended;
  std::size_t first = 0;
  for (const newest& of : sequences) {
    project(x + first * hidden, of.tokens, *of.cache, q_.data() + first * q_row);
    attended.push_back({of.cache, of.tokens, q_.data() + first * q_row, heads_.data() + first * q_row});
    first += size(of.tokens);
  }
  backend.run(rank, layer_, attended);
  projected_.resize(tokens * hidden);
  multiply_rows(weights_.o.data(), hidden, q_row, heads_.data(), tokens, projected_.data());
  for (std::size_t i = 0; i < projected_.size(); ++i) x[i] += projected_[i];
}

void attention::project(const float* x, int tokens, kv_cache& cache, float* q) {
  const std::size_t n = size(tokens), hidden = size(config_.hidden_size), kv_row = size(cache.row());
  const std::size_t q_row = size(config_.num_attention_heads) * size(config_.head_dim);
  const auto eps = static_cast<float>(config_.rms_norm_eps);
  normed_.resize(n * hidden);
  for (std::size_t t = 0; t < n; ++t) {
    rms_norm(x + t * hidden, weights_.input_norm, eps, normed_.data() + t * hidden);
  }
  k_.resize(n * kv_row);
  v_.resize(n * kv_row);
  multiply_rows(weights_.q.data(), q_row, hidden, normed_.data(), n, q);
  multiply_rows(weights_.k.data(), kv_row, hidden, normed_.data(), n, k_.data());
  multiply_rows(weights_.v.data(), kv_row, hidden, normed_.data(), n, v_.data());
  for (std::size_t t = 0; t < n; ++t) {
    const int position = cache.positions() + static_cast<int>(t);
    rotation_.set(position);
    finish_heads(q + t * q_row, config_.num_attention_heads, weights_.q_norm, eps, rotation_);
    finish_heads(k_.data() + t * kv_row, config_.num_key_value_heads, weights_.k_norm, eps, rotation_);
    cache.put(layer_, position, {k_.data() + t * kv_row, kv_row}, {v_.data() + t * kv_row, kv_row});
  }
}

}  // namespace baton::model
