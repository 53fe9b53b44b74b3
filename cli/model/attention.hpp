#pragma once
// Causal self-attention of one layer with a key-value cache, grouped key-value heads, and normalised q and k.
#include <vector>

#include "cli/model/checkpoint.hpp"
#include "cli/model/kv_cache.hpp"
#include "cli/model/rotary.hpp"

namespace baton::model {

class attention {
 public:
  attention(const model_config& config, int layer, layer_weights weights);

  /// x[t] += attention(norm(x[t])) for the `tokens` newest tokens of one sequence, which stand at the positions from
  /// cache.positions() on. Their keys and values are put into the cache, not committed.
  void add_to(float* x, int tokens, kv_cache& cache);

 private:
  void project(const float* x, int tokens, kv_cache& cache);
  void attend(int token, int position, const kv_cache& cache);
  void attend_head(const float* query, const float* keys, const float* values, int positions, float* out);

  model_config config_;
  int layer_;
  layer_weights weights_;
  rotation rotation_;
  std::vector<float> normed_, q_, k_, v_, scores_, heads_, projected_;  // kept between calls
};

}  // namespace baton::model
