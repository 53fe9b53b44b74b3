#pragma once
// Operands of C = A * B^T and what must come out, for both devices.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "baton/numeric.hpp"

namespace baton::test {

struct gemm_size {
  int m, n, k;
};

inline std::string text(const gemm_size& s) {
  return std::to_string(s.m) + " x " + std::to_string(s.n) + " x " + std::to_string(s.k);
}

/// `In` is bfloat16 or float16.
template <class In>
struct typed_gemm_case {
  gemm_size size;
  std::vector<In> a, b;           // [m, k], [n, k]
  std::vector<double> c, weight;  // [m, n]: the product, and the sum of its terms' magnitudes
};
using gemm_case = typed_gemm_case<bfloat16>;

/// `draw()` gives each value of a and b, rounded to In.
template <class In, class Draw>
typed_gemm_case<In> make_gemm(const gemm_size& s, Draw draw) {
  const auto m = static_cast<std::size_t>(s.m), n = static_cast<std::size_t>(s.n),
             k = static_cast<std::size_t>(s.k);
  typed_gemm_case<In> made{s, std::vector<In>(m * k), std::vector<In>(n * k), std::vector<double>(m * n),
                           std::vector<double>(m * n)};
  for (auto& v : made.a) v = In{draw()};
  for (auto& v : made.b) v = In{draw()};
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      for (std::size_t l = 0; l < k; ++l) {
        const double term = static_cast<double>(static_cast<float>(made.a[i * k + l])) *
                            static_cast<double>(static_cast<float>(made.b[j * k + l]));
        made.c[i * n + j] += term;
        made.weight[i * n + j] += std::abs(term);
      }
    }
  }
  return made;
}

/// b of a case as [k, n].
template <class In>
std::vector<In> b_of_rows_of_k(const typed_gemm_case<In>& g) {
  const auto n = static_cast<std::size_t>(g.size.n), k = static_cast<std::size_t>(g.size.k);
  std::vector<In> b(g.b.size());
  for (std::size_t j = 0; j < n; ++j)
    for (std::size_t l = 0; l < k; ++l) b[l * n + j] = g.b[j * k + l];
  return b;
}

/// `g` with its result multiplied by alpha and beta times what was there added.
template <class In>
test::typed_gemm_case<In> scaled(test::typed_gemm_case<In> g, double alpha, double beta, double before) {
  for (double& v : g.c) v = alpha * v + beta * before;
  return g;
}

/// Integers from -19 to 19: all partial sums are exact in fp32 for k below 46,000.
template <class In = bfloat16>
typed_gemm_case<In> integer_gemm(const gemm_size& s, std::uint32_t seed = 1) {
  std::mt19937 random{seed};
  return make_gemm<In>(s, [&] { return static_cast<float>(static_cast<int>(random() % 39) - 19); });
}

template <class In = bfloat16>
typed_gemm_case<In> real_gemm(const gemm_size& s, std::uint32_t seed = 1) {
  std::mt19937 random{seed};
  std::normal_distribution<float> normal;
  return make_gemm<In>(s, [&] { return normal(random); });
}

/// The first wrong element; empty if all are right. `steps`: an element may be off by that many roundings of fp32,
/// each at most 2^-23 (a tensor core truncates) of the sum of its terms' magnitudes, and where it is bf16 or fp16 by its own
/// rounding, at most 2^-8 or 2^-11 of it (the smallest fp16 are 2^-24 apart). 0: the exact value, rounded once.
template <class Out, class In>
std::string wrong_element(const typed_gemm_case<In>& expected, const Out* c, int steps = 0) {
  const auto n = static_cast<std::size_t>(expected.size.n);
  for (std::size_t i = 0; i < expected.c.size(); ++i) {
    const double found = static_cast<double>(static_cast<float>(c[i])), right = expected.c[i];
    const double of_out =
        std::is_same_v<Out, float16> ? std::abs(right) * 0x1p-11 + 0x1p-25 : std::abs(right) * 0x1p-8;
    const double own_rounding = std::is_same_v<Out, float> || steps == 0 ? 0 : of_out;
    const double exact = static_cast<double>(static_cast<float>(Out{static_cast<float>(right)}));
    const double error = std::abs(found - (steps == 0 ? exact : right));
    if (error <= expected.weight[i] * steps * 0x1p-23 * (1 + 0x1p-7) + own_rounding) continue;
    return text(expected.size) + ": c[" + std::to_string(i / n) + ", " + std::to_string(i % n) +
           "] = " + std::to_string(found) + ", expected " + std::to_string(right);
  }
  return "";
}

}  // namespace baton::test
