#pragma once
#include <cstdint>

namespace baton::ptx {

/// cvt.rn.f16x2.e4m3x2: two e4m3 as two fp16, that of the lower byte in the lower half, of the lower half of a word
/// and of the upper one: named so, the machine's instruction takes either, and nothing is shifted. No memory clobber:
/// they touch registers only.                                                     (PTX 7.8, sm_89)
__device__ __forceinline__ std::uint32_t cvt_f16x2_low_e4m3x2(std::uint32_t four) {
  std::uint32_t wide;
  asm("{ .reg .b16 l, h; mov.b32 {l, h}, %1; cvt.rn.f16x2.e4m3x2 %0, l; }" : "=r"(wide) : "r"(four));
  return wide;
}
__device__ __forceinline__ std::uint32_t cvt_f16x2_high_e4m3x2(std::uint32_t four) {
  std::uint32_t wide;
  asm("{ .reg .b16 l, h; mov.b32 {l, h}, %1; cvt.rn.f16x2.e4m3x2 %0, h; }" : "=r"(wide) : "r"(four));
  return wide;
}

}  // namespace baton::ptx
