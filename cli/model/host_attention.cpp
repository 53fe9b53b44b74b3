#include "cli/model/host_attention.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/dot.hpp"
#include "cli/model/norm.hpp"

namespace baton::model {

void host_attention::run(int, int layer, std::span<const attended_sequence> sequences) {
  for (const attended_sequence& of : sequences)
    for (int t = 0; t < of.tokens; ++t) attend(layer, of, t);
}

void host_attention::attend(int layer, const attended_sequence& of, int token) {
  const std::size_t dim = size(config_.head_dim);
  const std::size_t row = size(token) * size(config_.num_attention_heads) * dim;
  const int group = config_.num_attention_heads / config_.num_key_value_heads;
  const int positions = of.cache->positions() + token + 1;
  for (int h = 0; h < config_.num_attention_heads; ++h) {
    const std::size_t kv_head = size(h / group) * dim, at = row + size(h) * dim;
    attend_head(of.q + at, of.cache->keys(layer) + kv_head, of.cache->values(layer) + kv_head, positions,
                of.out + at);
  }
}

void host_attention::attend_head(const float* query, const float* keys, const float* values, int positions,
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
