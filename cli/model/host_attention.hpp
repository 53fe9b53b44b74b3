#pragma once
// Attention in fp32 on the host: what others are measured against.
#include <vector>

#include "cli/model/attention_backend.hpp"
#include "cli/model/checkpoint.hpp"

namespace baton::model {

class host_attention : public attention_backend {
 public:
  explicit host_attention(const model_config& config) : config_{config} {}
  void run(int rank, int layer, std::span<const attended_sequence> sequences) override;

 private:
  void attend(int layer, const attended_sequence& of, int token);
  void attend_head(const float* query, const float* keys, const float* values, int positions, float* out);

  model_config config_;
  std::vector<float> scores_;  // kept between calls
};

}  // namespace baton::model
