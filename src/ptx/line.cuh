#pragma once
// 16 bytes of a line, or two words: accesses that are neither cached, merged nor reordered by the compiler with each other.
// PTX ISA 9.7.9.8 "ld.volatile", 9.7.9.12 "st.volatile": relaxed at system scope.
#include <cstddef>
#include <cstdint>

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

// Two words of 64 bits, each seen whole: a vector is as many accesses to its words as PTX ISA 8.2.2 has it.
__device__ __forceinline__ void st_words(std::uint64_t* to, std::uint64_t first, std::uint64_t second) {
  asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};"
               :
               : "l"(to), "l"(first), "l"(second)
               : "memory");
}

__device__ __forceinline__ void ld_words(const std::uint64_t* from, std::uint64_t& first,
                                         std::uint64_t& second) {
  asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(first), "=l"(second)
               : "l"(from)
               : "memory");
}

// prefetch.global.L2: the line of `p`, if it is not there
__device__ __forceinline__ void prefetch_l2(const void* p) {
  asm volatile("prefetch.global.L2 [%0];" : : "l"(p));
}
/// Both aligned to 16.
__device__ __forceinline__ void bulk_prefetch_l2(const void* p, std::uint32_t bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(__cvta_generic_to_global(p)), "r"(bytes));
}

// An instruction that needs `value`, and does nothing: without one a load of it would be left out.
__device__ __forceinline__ void look_at(std::uint32_t value) {
  asm volatile(
      "{ .reg .pred never; setp.eq.u32 never, %0, 0x5bd1e995; @never nanosleep.u32 0; }" ::"r"(value));
}

}  // namespace baton::ptx
