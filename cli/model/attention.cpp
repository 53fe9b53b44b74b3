#include "cli/model/attention.hpp"

#include <algorithm>
#include <cmath>
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

void attention::add_to(float* x, int tokens, kv_cache& cache) {
  const std::size_t hidden = size(config_.hidden_size);
  const std::size_t q_row = size(config_.num_attention_heads) * size(config_.head_dim);
  project(x, tokens, cache);
  heads_.resize(size(tokens) * q_row);
  for (int t = 0; t < tokens; ++t) attend(t, cache.positions() + t, cache);
  projected_.resize(size(tokens) * hidden);
  multiply_rows(weights_.o.data(), hidden, q_row, heads_.data(), size(tokens), projected_.data());
  for (std::size_t i = 0; i < projected_.size(); ++i) x[i] += projected_[i];
}

void attention::project(const float* x, int tokens, kv_cache& cache) {
  const std::size_t n = size(tokens), hidden = size(config_.hidden_size), kv_row = size(cache.row());
  const std::size_t q_row = size(config_.num_attention_heads) * size(config_.head_dim);
  const auto eps = static_cast<float>(config_.rms_norm_eps);
  normed_.resize(n * hidden);
  for (std::size_t t = 0; t < n; ++t) {
    rms_norm(x + t * hidden, weights_.input_norm, eps, normed_.data() + t * hidden);
  }
  q_.resize(n * q_row);
  k_.resize(n * kv_row);
  v_.resize(n * kv_row);
  multiply_rows(weights_.q.data(), q_row, hidden, normed_.data(), n, q_.data());
  multiply_rows(weights_.k.data(), kv_row, hidden, normed_.data(), n, k_.data());
  multiply_rows(weights_.v.data(), kv_row, hidden, normed_.data(), n, v_.data());
  for (std::size_t t = 0; t < n; ++t) {
    const int position = cache.positions() + static_cast<int>(t);
    rotation_.set(position);
    finish_heads(q_.data() + t * q_row, config_.num_attention_heads, weights_.q_norm, eps, rotation_);
    finish_heads(k_.data() + t * kv_row, config_.num_key_value_heads, weights_.k_norm, eps, rotation_);
    cache.put(layer_, position, {k_.data() + t * kv_row, kv_row}, {v_.data() + t * kv_row, kv_row});
  }
}

void attention::attend(int token, int position, const kv_cache& cache) {
  const std::size_t dim = size(config_.head_dim);
  const std::size_t row = size(token) * size(config_.num_attention_heads) * dim;
  const int group = config_.num_attention_heads / config_.num_key_value_heads;
  for (int h = 0; h < config_.num_attention_heads; ++h) {
    const std::size_t kv_head = size(h / group) * dim;
    attend_head(q_.data() + row + size(h) * dim, cache.keys(layer_) + kv_head, cache.values(layer_) + kv_head,
                position + 1, heads_.data() + row + size(h) * dim);
  }
}

void attention::attend_head(const float* query, const float* keys, const float* values, int positions,
                            float* out) {
  const std::size_t dim = size(config_.head_dim), n = size(positions);
  const std::size_t stride = size(config_.num_key_value_heads) * dim;
  const float scale = 1.0f / std::sqrt(static_cast<float>(dim));
  scores_.resize(n);
  for (std::size_t p = 0; p < n; ++p) scores_[p] = dot(query, keys + p * stride, dim) * scale;
  const float largest = *std::max_element(scores_.begin(), scores_.end());
  float sum = 0;
  for (float& s : scores_) sum += s = std::exp(s - largest);
  std::fill(out, out + dim, 0.0f);
  for (std::size_t p = 0; p < n; ++p) add_scaled(out, values + p * stride, scores_[p] / sum, dim);
}

}  // namespace baton::model
