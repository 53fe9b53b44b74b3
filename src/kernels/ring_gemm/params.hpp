#pragma once
#include <cstdint>

#include "base/tile_walk.hpp"
#include "baton/ring_gemm_config.hpp"

namespace baton::ring_gemm_kernels {

/// What the kernel reads and writes: passed by value as a __grid_constant__.
struct params {
  const bfloat16* a;  // [m, k]
  const bfloat16* b;  // [n, k]
  float* c;           // [m, n]
  int m, n, k;
  bool vectors;  // rows of a and b are 16-byte aligned
};

inline params params_of(const ring_gemm_problem& p) {
  const auto aligned = [](const bfloat16* operand) {
    return reinterpret_cast<std::uintptr_t>(operand) % 16 == 0;
  };
  return {p.a, p.b, p.c, p.m, p.n, p.k, p.k % 8 == 0 && aligned(p.a) && aligned(p.b)};
}

}  // namespace baton::ring_gemm_kernels
