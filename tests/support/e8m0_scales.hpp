#pragma once
// Scales of eight bits for tests.
#include <cmath>
#include <cstdint>
#include <vector>

#include "baton/numeric.hpp"

namespace baton::test {

/// Of scales that are powers of two, or NaN.
inline std::vector<float8_e8m0> exponents_of(const std::vector<float>& scales) {
  std::vector<float8_e8m0> made;
  for (const float s : scales)
    made.push_back(
        float8_e8m0::from_bits(static_cast<std::uint8_t>(std::isnan(s) ? 255 : std::ilogb(s) + 127)));
  return made;
}

/// Which scales are of eight bits.
struct eight_bits {
  bool a, b;
};
inline constexpr eight_bits all_choices[] = {{true, false}, {false, true}, {true, true}};

}  // namespace baton::test
