#pragma once
// wgmma: the four warps of a group multiply 64 rows of A by n rows of B, asynchronously.            (PTX 8.0, sm_90a)
//
// A, where it is not in registers, and B are matrix descriptors of shared memory, k contiguous but where B is transposed.
// acc[4 j ... 4 j + 3] of lane l of warp w: rows 16 w + l / 4 (the last two: + 8), columns 8 j + 2 (l % 4) and one on. Products
// have no memory clobber: wgmma_fence before and wgmma_wait after have it, and volatile keeps the order among them.
#include <cstdint>

namespace baton::ptx {

/// wgmma.fence.sync.aligned: registers and shared memory written before are there for the products that follow
__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

/// wgmma.commit_group.sync.aligned
__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/// wgmma.wait_group.sync.aligned: until at most `Pending` of the newest groups are not done
template <int Pending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(Pending) : "memory");
}

// Names of operands, eight registers at a time.
#define BATON_OPERANDS_32                                                                           \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, " \
  "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define BATON_OPERANDS_64                                                                             \
  BATON_OPERANDS_32                                                                                   \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, " \
  "%51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define BATON_OPERANDS_128                                                                            \
  BATON_OPERANDS_64                                                                                   \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, " \
  "%83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, " \
  "%102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, "  \
  "%118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define BATON_ACC_8(i)                                                                                    \
  "+f"(acc[i]), "+f"(acc[i + 1]), "+f"(acc[i + 2]), "+f"(acc[i + 3]), "+f"(acc[i + 4]), "+f"(acc[i + 5]), \
      "+f"(acc[i + 6]), "+f"(acc[i + 7])
#define BATON_ACC_32(i) BATON_ACC_8(i), BATON_ACC_8(i + 8), BATON_ACC_8(i + 16), BATON_ACC_8(i + 24)
#define BATON_ACC_64(i) BATON_ACC_32(i), BATON_ACC_32(i + 32)

// Three overloads, by the columns of acc: acc = a * b^T, plus acc where `add`. `transposed`: b's rows are values of k.
#define BATON_WGMMA_16(name, type)                                                                     \
  template <bool transposed = false>                                                                   \
  __device__ __forceinline__ void name(float(&acc)[32], std::uint64_t a, std::uint64_t b, bool add) {  \
    asm volatile(                                                                                      \
        "{\n  .reg .pred p;\n  setp.ne.b32 p, %34, 0;\n"                                               \
        "  wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {" BATON_OPERANDS_32           \
        "}, %32, %33, p, 1, 1, 0, %35;\n}"                                                             \
        : BATON_ACC_32(0)                                                                              \
        : "l"(a), "l"(b), "r"(static_cast<std::uint32_t>(add)), "n"(transposed ? 1 : 0));              \
  }                                                                                                    \
  template <bool transposed = false>                                                                   \
  __device__ __forceinline__ void name(float(&acc)[64], std::uint64_t a, std::uint64_t b, bool add) {  \
    asm volatile(                                                                                      \
        "{\n  .reg .pred p;\n  setp.ne.b32 p, %66, 0;\n"                                               \
        "  wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" BATON_OPERANDS_64          \
        "}, %64, %65, p, 1, 1, 0, %67;\n}"                                                             \
        : BATON_ACC_64(0)                                                                              \
        : "l"(a), "l"(b), "r"(static_cast<std::uint32_t>(add)), "n"(transposed ? 1 : 0));              \
  }                                                                                                    \
  template <bool transposed = false>                                                                   \
  __device__ __forceinline__ void name(float(&acc)[128], std::uint64_t a, std::uint64_t b, bool add) { \
    asm volatile(                                                                                      \
        "{\n  .reg .pred p;\n  setp.ne.b32 p, %130, 0;\n"                                              \
        "  wgmma.mma_async.sync.aligned.m64n256k16.f32." type "." type " {" BATON_OPERANDS_128         \
        "}, %128, %129, p, 1, 1, 0, %131;\n}"                                                          \
        : BATON_ACC_64(0), BATON_ACC_64(64)                                                            \
        : "l"(a), "l"(b), "r"(static_cast<std::uint32_t>(add)), "n"(transposed ? 1 : 0));              \
  }

// The same with A in registers: a[0] and a[1] are columns 2 (l % 4) and one on, of rows as acc has them; a[2] and a[3] those
// 8 further on.
#define BATON_WGMMA_16_REGISTERS(name, type)                                                          \
  template <bool transposed = false>                                                                  \
  __device__ __forceinline__ void name(float(&acc)[32], const std::uint32_t(&a)[4], std::uint64_t b,  \
                                       bool add) {                                                    \
    asm volatile(                                                                                     \
        "{\n  .reg .pred p;\n  setp.ne.b32 p, %37, 0;\n"                                              \
        "  wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {" BATON_OPERANDS_32          \
        "}, {%32, %33, %34, %35}, %36, p, 1, 1, %38;\n}"                                              \
        : BATON_ACC_32(0)                                                                             \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<std::uint32_t>(add)),   \
          "n"(transposed ? 1 : 0));                                                                   \
  }                                                                                                   \
  template <bool transposed = false>                                                                  \
  __device__ __forceinline__ void name(float(&acc)[64], const std::uint32_t(&a)[4], std::uint64_t b,  \
                                       bool add) {                                                    \
    asm volatile(                                                                                     \
        "{\n  .reg .pred p;\n  setp.ne.b32 p, %69, 0;\n"                                              \
        "  wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" BATON_OPERANDS_64         \
        "}, {%64, %65, %66, %67}, %68, p, 1, 1, %70;\n}"                                              \
        : BATON_ACC_64(0)                                                                             \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<std::uint32_t>(add)),   \
          "n"(transposed ? 1 : 0));                                                                   \
  }                                                                                                   \
  template <bool transposed = false>                                                                  \
  __device__ __forceinline__ void name(float(&acc)[128], const std::uint32_t(&a)[4], std::uint64_t b, \
                                       bool add) {                                                    \
    asm volatile(                                                                                     \
        "{\n  .reg .pred p;\n  setp.ne.b32 p, %133, 0;\n"                                             \
        "  wgmma.mma_async.sync.aligned.m64n256k16.f32." type "." type " {" BATON_OPERANDS_128        \
        "}, {%128, %129, %130, %131}, %132, p, 1, 1, %134;\n}"                                        \
        : BATON_ACC_64(0), BATON_ACC_64(64)                                                           \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<std::uint32_t>(add)),   \
          "n"(transposed ? 1 : 0));                                                                   \
  }

/// wgmma.mma_async.sync.aligned.m64n{64|128|256}k16.f32.bf16.bf16
BATON_WGMMA_16(wgmma_bf16, "bf16")
BATON_WGMMA_16_REGISTERS(wgmma_bf16, "bf16")
/// wgmma.mma_async.sync.aligned.m64n{64|128|256}k16.f32.f16.f16
BATON_WGMMA_16(wgmma_fp16, "f16")
BATON_WGMMA_16_REGISTERS(wgmma_fp16, "f16")

// Few columns, and `a_transposed`: a's rows are values of k.
#define BATON_ACC_4(i) "+f"(acc[i]), "+f"(acc[i + 1]), "+f"(acc[i + 2]), "+f"(acc[i + 3])
#define BATON_WGMMA_16_NARROW(name, type)                                                             \
  template <bool a_transposed>                                                                        \
  __device__ __forceinline__ void name(float(&acc)[4], std::uint64_t a, std::uint64_t b, bool add) {  \
    asm volatile(                                                                                     \
        "{\n  .reg .pred p;\n  setp.ne.b32 p, %6, 0;\n"                                               \
        "  wgmma.mma_async.sync.aligned.m64n8k16.f32." type "." type                                  \
        " {%0, %1, %2, %3}, %4, %5, p, 1, "                                                           \
        "1, %7, 0;\n}"                                                                                \
        : BATON_ACC_4(0)                                                                              \
        : "l"(a), "l"(b), "r"(static_cast<std::uint32_t>(add)), "n"(a_transposed ? 1 : 0));           \
  }                                                                                                   \
  template <bool a_transposed>                                                                        \
  __device__ __forceinline__ void name(float(&acc)[16], std::uint64_t a, std::uint64_t b, bool add) { \
    asm volatile(                                                                                     \
        "{\n  .reg .pred p;\n  setp.ne.b32 p, %18, 0;\n"                                              \
        "  wgmma.mma_async.sync.aligned.m64n32k16.f32." type "." type                                 \
        " {%0, %1, %2, %3, %4, %5, %6, "                                                              \
        "%7, %8, %9, %10, %11, %12, %13, %14, %15}, %16, %17, p, 1, 1, %19, 0;\n}"                    \
        : BATON_ACC_8(0), BATON_ACC_8(8)                                                              \
        : "l"(a), "l"(b), "r"(static_cast<std::uint32_t>(add)), "n"(a_transposed ? 1 : 0));           \
  }
/// wgmma.mma_async.sync.aligned.m64n{8|32}k16.f32.bf16.bf16
BATON_WGMMA_16_NARROW(wgmma_narrow_bf16, "bf16")
/// wgmma.mma_async.sync.aligned.m64n{8|32}k16.f32.f16.f16
BATON_WGMMA_16_NARROW(wgmma_narrow_fp16, "f16")

/// wgmma.mma_async.sync.aligned.m64n{64|128}k32.f32.e4m3.e4m3: acc = a * b^T, plus acc where `add`
__device__ __forceinline__ void wgmma_e4m3(float (&acc)[32], std::uint64_t a, std::uint64_t b, bool add) {
  asm volatile(
      "{\n  .reg .pred p;\n  setp.ne.b32 p, %34, 0;\n"
      "  wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 {" BATON_OPERANDS_32 "}, %32, %33, p, 1, 1;\n}"
      : BATON_ACC_32(0)
      : "l"(a), "l"(b), "r"(static_cast<std::uint32_t>(add)));
}
__device__ __forceinline__ void wgmma_e4m3(float (&acc)[64], std::uint64_t a, std::uint64_t b, bool add) {
  asm volatile(
      "{\n  .reg .pred p;\n  setp.ne.b32 p, %66, 0;\n"
      "  wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {" BATON_OPERANDS_64 "}, %64, %65, p, 1, 1;\n}"
      : BATON_ACC_64(0)
      : "l"(a), "l"(b), "r"(static_cast<std::uint32_t>(add)));
}

#undef BATON_WGMMA_16
#undef BATON_WGMMA_16_REGISTERS
#undef BATON_WGMMA_16_NARROW
#undef BATON_ACC_4
#undef BATON_OPERANDS_32
#undef BATON_OPERANDS_64
#undef BATON_OPERANDS_128
#undef BATON_ACC_8
#undef BATON_ACC_32
#undef BATON_ACC_64

}  // namespace baton::ptx
