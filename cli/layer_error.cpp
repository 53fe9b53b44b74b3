#include "cli/layer_error.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace baton::cli {

layer_error measure(model::bounded_moe bounds, std::span<const float> expected,
                    const std::vector<float>& found, int hidden) {
  layer_error error;
  double difference_squares = 0, expected_squares = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double want = expected[i], difference = std::abs(static_cast<double>(found[i]) - want);
    if (!(difference <= error.max_abs)) error.max_abs = std::isnan(difference) ? INFINITY : difference;
    difference_squares += difference * difference;
    expected_squares += want * want;
    bounds.exact[i] = want;
    bounds.bound[i] += std::abs(want) * 0x1p-24 + std::numeric_limits<float>::denorm_min();
  }
  if (difference_squares > 0) error.rms_relative = std::sqrt(difference_squares / expected_squares);
  error.worst = model::compare(bounds, found, hidden);
  return error;
}

}  // namespace baton::cli
