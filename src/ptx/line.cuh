#pragma once
// 16 bytes of a line: accesses that are neither cached, merged nor reordered by the compiler with each other.
// PTX ISA 9.7.9.8 "ld.volatile", 9.7.9.12 "st.volatile": relaxed at system scope.
#include <cstddef>

namespace baton::ptx {

__device__ __forceinline__ void st_line(std::byte* to, uint4 v) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

__device__ __forceinline__ uint4 ld_line(const std::byte* from) {
  uint4 v;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from)
               : "memory");
  return v;
}

}  // namespace baton::ptx
