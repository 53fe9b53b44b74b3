#pragma once
#include <cstdint>

namespace baton::ptx {

/// stmatrix.sync.aligned.m8n8.x4.shared.b16                                       (PTX 7.8, sm_90)
/// Four 8x8 matrices of 16-bit values; lanes 8i to 8i+7 name the 16-byte rows of matrix i. Lane l gives in from[i]
/// values 2(l % 4) and 2(l % 4) + 1 of row l / 4 of matrix i.
__device__ __forceinline__ void stmatrix_x4(std::uint32_t shared_row, const std::uint32_t (&from)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
               :
               : "r"(shared_row), "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3])
               : "memory");
}

}  // namespace baton::ptx
