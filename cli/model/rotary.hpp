#pragma once
// Rotary position embedding: value i of a head turns with value i + head_dim / 2.
#include <vector>

namespace baton::model {

/// The angles of one position, for all heads of a token.
class rotation {
 public:
  rotation(int head_dim, double theta);

  /// Turns to `position`: angle i is position * theta^(-2 i / head_dim).
  void set(int position);
  void apply(float* head) const;

 private:
  std::vector<double> frequency_;  // [head_dim / 2]
  std::vector<float> cosine_, sine_;
};

}  // namespace baton::model
