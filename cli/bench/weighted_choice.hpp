#pragma once
// Draws from what is not equally likely.
#include <cstdint>
#include <span>
#include <vector>

#include "cli/bench/random_bits.hpp"

namespace baton::cli {

/// i with a probability in proportion to shares[i].
class weighted_choice {
 public:
  explicit weighted_choice(std::span<const double> shares);
  std::int32_t operator()(random_bits& random) const;

 private:
  std::vector<double> up_to_;  // the sum of all shares up to each
};

/// The n-th of `count` in proportion to 1 / n, from n = 1.
weighted_choice zipf_choice(int count);

/// 0 to count - 1 in an order that `seed` says.
std::vector<std::int32_t> shuffled(int count, std::uint64_t seed);

}  // namespace baton::cli
