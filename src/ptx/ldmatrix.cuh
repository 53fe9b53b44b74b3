#pragma once
#include <cstdint>

namespace baton::ptx {

/// ldmatrix.sync.aligned.m8n8.x4.shared.b16                                       (PTX 6.5, sm_75)
/// Four 8x8 matrices of 16-bit values; lanes 8i to 8i+7 name the 16-byte rows of matrix i. Lane l gets in to[i]
/// values 2(l % 4) and 2(l % 4) + 1 of row l / 4 of matrix i.
__device__ __forceinline__ void ldmatrix_x4(std::uint32_t (&to)[4], std::uint32_t shared_row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_row)
               : "memory");
}

/// The same with .trans: lane l gets values l / 4 of rows 2(l % 4) and 2(l % 4) + 1 of matrix i.
__device__ __forceinline__ void ldmatrix_turned_x4(std::uint32_t (&to)[4], std::uint32_t shared_row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_row)
               : "memory");
}

}  // namespace baton::ptx
