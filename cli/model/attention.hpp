#pragma once
// Causal self-attention of one layer with a key-value cache, grouped key-value heads, and normalised q and k. Projections and
// norms are here, what lies between them is an attention_backend's.
#include <vector>

#include "cli/model/attention_backend.hpp"
#include "cli/model/checkpoint.hpp"
#include "cli/model/kv_cache.hpp"
#include "cli/model/rotary.hpp"

namespace baton::model {

class attention {
 public:
  attention(const model_config& config, int layer, layer_weights weights);

  /// The newest tokens of one sequence, which stand at the positions from cache->positions() on.
  struct newest {
    kv_cache* cache;
    int tokens;
  };
  /// x[t] += attention(norm(x[t])) for all tokens of a rank's sequences, one after the other. Their keys and values are put into
  /// the caches, not committed.
  void add_to(float* x, int rank, std::span<const newest> sequences, attention_backend& backend);

 private:
  void project(const float* x, int tokens, kv_cache& cache, float* q);

  model_config config_;
  int layer_;
  layer_weights weights_;
  rotation rotation_;
  std::vector<float> normed_, q_, k_, v_, heads_, projected_;  // kept between calls
};

}  // namespace baton::model
