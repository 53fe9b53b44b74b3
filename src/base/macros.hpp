#pragma once
// BATON_FN marks a function that kernels call: device code under nvcc, a plain inline function elsewhere, so
// that one source serves the GPU, the simulator and the checker. Functions both sides call are constexpr.
#if defined(__CUDACC__)
#define BATON_FN __device__ __forceinline__
#else
#define BATON_FN inline
#endif
