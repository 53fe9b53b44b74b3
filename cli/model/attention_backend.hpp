#pragma once
// The seam between the host's model and whatever runs the middle of its attention: rows meet keys.
#include <span>

#include "cli/model/kv_cache.hpp"

namespace baton::model {

/// The newest tokens of one sequence in one layer. Their keys and values are in the cache, not committed: they stand at the
/// positions from cache->positions() on.
struct attended_sequence {
  const kv_cache* cache = nullptr;
  int tokens = 0;
  const float* q = nullptr;  // [tokens, heads, head_dim], normalised and turned
  float* out = nullptr;      // [tokens, heads, head_dim]
};

/// Runs causal attention of all sequences that a rank brings to a step.
class attention_backend {
 public:
  virtual ~attention_backend() = default;

  /// out[t] of each head becomes the softmax of q[t] . k / sqrt(head_dim) over the sequence's keys up to t's own, times v.
  /// Query heads h share the key-value head h / (heads / kv_heads). What a sequence gets depends on nothing else in the call.
  virtual void run(int rank, int layer, std::span<const attended_sequence> sequences) = 0;
};

}  // namespace baton::model
