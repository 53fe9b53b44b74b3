#pragma once
// Counting and finding bits: one instruction each on a GPU.
#include <bit>
#include <cstdint>

#include "base/macros.hpp"

namespace baton {

/// How many bits are 1.
BATON_FN int count_bits(std::uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __popc(bits);
#else
  return std::popcount(bits);
#endif
}

/// The lowest bit that is 1; `bits` is not 0.
BATON_FN int lowest_bit(std::uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __ffs(static_cast<int>(bits)) - 1;
#else
  return std::countr_zero(bits);
#endif
}

}  // namespace baton
