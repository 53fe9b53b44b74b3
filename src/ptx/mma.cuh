#pragma once
#include <cstdint>

namespace baton::ptx {

/// mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32: acc += a * b              (PTX 7.0, sm_80)
/// With g = lane / 4 and t = lane % 4, low half first: a[0], a[1] are rows g, g + 8 at k = 2t, 2t + 1; a[2], a[3]
/// the same at k + 8; b0, b1 are column g at k = 2t and 2t + 8; acc[0..1] are row g, columns 2t, 2t + 1; acc[2..3]
/// row g + 8. No memory clobber: it touches registers only.
__device__ __forceinline__ void mma_m16n8k16(float (&acc)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                             std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// The same of fp16; `acc` are four.
__device__ __forceinline__ void mma_m16n8k16_fp16(float* acc, const std::uint32_t (&a)[4], std::uint32_t b0,
                                                  std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace baton::ptx
