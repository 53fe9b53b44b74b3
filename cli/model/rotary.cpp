#include "cli/model/rotary.hpp"

#include <cmath>
#include <cstddef>

namespace baton::model {

rotation::rotation(int head_dim, double theta)
    : frequency_(static_cast<std::size_t>(head_dim) / 2),
      cosine_(frequency_.size()),
      sine_(frequency_.size()) {
  for (std::size_t i = 0; i < frequency_.size(); ++i) {
    frequency_[i] = std::pow(theta, -2.0 * static_cast<double>(i) / head_dim);
  }
}

void rotation::set(int position) {
  for (std::size_t i = 0; i < frequency_.size(); ++i) {
    cosine_[i] = static_cast<float>(std::cos(position * frequency_[i]));
    sine_[i] = static_cast<float>(std::sin(position * frequency_[i]));
  }
}

void rotation::apply(float* head) const {
  const std::size_t half = frequency_.size();
  for (std::size_t i = 0; i < half; ++i) {
    const float low = head[i], high = head[i + half];
    head[i] = low * cosine_[i] - high * sine_[i];
    head[i + half] = high * cosine_[i] + low * sine_[i];
  }
}

}  // namespace baton::model
