#include "cli/layer_error.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace baton::cli {

model::moe_rounding rounding_of(const ep_config& config, device_kind device,
                                std::span<const int> tokens_of_ranks, weight_format stored) {
  model::moe_rounding rounding{.tensor_cores = device == device_kind::cuda, .dispatch = config.format};
  rounding.fp8_products = stored == weight_format::block_fp8;
  rounding.combine = config.combine_format;
  if (config.layout != ep_layout::per_rank) return rounding;
  const int ranks = static_cast<int>(tokens_of_ranks.size());
  const auto append = [](std::vector<int>& to, int count, int rank) {
    to.insert(to.end(), static_cast<std::size_t>(count), rank);
  };
  for (int r = 0; r < ranks; ++r) {
    append(rounding.rank_of_expert, experts_of_rank(config.num_experts, ranks, r).count, r);
    append(rounding.rank_of_token, tokens_of_ranks[static_cast<std::size_t>(r)], r);
  }
  return rounding;
}

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
