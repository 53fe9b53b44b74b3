#pragma once
// BATON_FN marks a function that kernels call: device code under nvcc, a plain inline function elsewhere, so
// that one source serves the GPU, the simulator and the checker. Functions both sides call are constexpr.
// BATON_UNROLL stands before a loop whose index picks registers on the GPU.
#if defined(__CUDACC__)
#define BATON_FN __device__ __forceinline__
#define BATON_UNROLL _Pragma("unroll")
#else
#define BATON_FN inline
#define BATON_UNROLL
#endif
