#pragma once
// A value that is computed where this stands, and kept. Without it the compiler computes an address again in each branch that
// loads from it, behind the load that the branch waits for.
#include <cstdint>

#include "base/macros.hpp"

namespace baton {

#if defined(__CUDA_ARCH__)
BATON_FN void settle(std::uint32_t& value) {
  asm volatile("" : "+r"(value));
}
BATON_FN void settle(std::int32_t& value) {
  asm volatile("" : "+r"(value));
}
#else
BATON_FN void settle(std::uint32_t&) {}
BATON_FN void settle(std::int32_t&) {}
#endif

}  // namespace baton
