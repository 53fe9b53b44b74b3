#pragma once
// BATON_FN marks a function that kernels call: device code under nvcc, a plain inline function elsewhere, so
// that one source serves the GPU, the simulator and the checker. Functions both sides call are constexpr.
// BATON_UNROLL stands before a loop whose index picks registers on the GPU, BATON_ROLLED before one that is rarely run and
// should take no room in the instruction cache.
#if defined(__CUDACC__)
#define BATON_FN __device__ __forceinline__
#define BATON_UNROLL _Pragma("unroll")
#define BATON_ROLLED _Pragma("unroll 1")
#else
#define BATON_FN inline
#define BATON_UNROLL
#define BATON_ROLLED
#endif
