#pragma once
#include <span>
#include <vector>

#include "baton/expert_parallel.hpp"
#include "cli/model/moe_error_bound.hpp"

namespace baton::cli {

/// How far a layer's output is from an expected one.
struct layer_error {
  double max_abs = 0;
  double rms_relative = 0;   // root of sum (found - expected)^2 / sum expected^2
  model::worst_value worst;  // the value nearest to its bound, or furthest past it
  bool is_within_bound() const { return worst.ratio <= 1.0; }
};

/// How an exchange rounds with experts that are stored so.
/// Of the tokens that a bound is asked for, the first tokens_of_ranks[0] are rank 0's, and so on.
model::moe_rounding rounding_of(const ep_config& config, device_kind device,
                                std::span<const int> tokens_of_ranks,
                                weight_format stored = weight_format::bf16);

/// `expected` replaces the exact values of `bounds`; it is fp32, so each bound grows by half a unit in its last
/// place.
layer_error measure(model::bounded_moe bounds, std::span<const float> expected,
                    const std::vector<float>& found, int hidden);

}  // namespace baton::cli
