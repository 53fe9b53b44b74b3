#pragma once
// What becomes of a product behind its sums, and what must come out, for both devices.
#include <cmath>
#include <string>
#include <vector>

#include "baton/activation.hpp"
#include "tests/support/gemm_case.hpp"

namespace baton::test {

enum class bias_kind { none, own, fp32 };  // of the type of C, or fp32

struct epilogue_case {
  float alpha = 1, beta = 0, before = 0;  // before: of what C held
  bias_kind bias = bias_kind::none;
  activation act = activation::none;
};

/// Multiples of a quarter from -4 to 4, which every type holds.
inline float bias_of(std::size_t column) {
  return 0.25f * static_cast<float>(static_cast<int>(column * 7 % 33) - 16);
}
template <class T>
std::vector<T> biases(int n) {
  std::vector<T> made;
  for (int j = 0; j < n; ++j) made.push_back(T{bias_of(static_cast<std::size_t>(j))});
  return made;
}

/// What C held: an integer below 2^5, which every type holds; neighbours' and those of other rows and tiles differ.
inline float held_by(const epilogue_case& e, std::size_t i) {
  return e.before + static_cast<float>(i % 19);
}
template <class T>
std::vector<T> what_was_there(const epilogue_case& e, std::size_t values) {
  std::vector<T> made;
  for (std::size_t i = 0; i < values; ++i) made.push_back(T{held_by(e, i)});
  return made;
}

/// With all of them alpha * product + beta * what C held + bias is exact in fp32 where products are integers below 2^17.
inline std::vector<epilogue_case> epilogue_cases() {
  using enum activation;
  return {{.bias = bias_kind::own},
          {.bias = bias_kind::fp32},
          {.beta = -2, .before = 5},
          {.act = relu},
          {.alpha = -2, .beta = 0.5f, .before = 6, .bias = bias_kind::own, .act = relu},
          {.alpha = 0x1p-7f, .act = silu},
          {.alpha = 0x1p-7f, .beta = 0.25f, .before = -2, .bias = bias_kind::fp32, .act = silu},
          {.alpha = 0x1p-7f, .act = gelu},
          {.alpha = -0x1p-7f, .beta = -0.5f, .before = 3, .bias = bias_kind::own, .act = gelu}};
}

/// `Problem` has the fields of gemm_problem. Biases are of the type of C, and of fp32.
template <class Problem, class Out, class In>
Problem problem_of(const epilogue_case& e, const gemm_size& size, const In* a, const In* b, Out* c,
                   const Out* own_bias, const float* fp32_bias) {
  return {.a = a,
          .b = b,
          .c = c,
          .m = size.m,
          .n = size.n,
          .k = size.k,
          .alpha = e.alpha,
          .beta = e.beta,
          .bias = e.bias == bias_kind::own ? own_bias : nullptr,
          .fp32_bias = e.bias == bias_kind::fp32 ? fp32_bias : nullptr,
          .act = e.act};
}

inline std::string text(const epilogue_case& e) {
  return std::string{name(e.act)} + ", alpha " + std::to_string(e.alpha) + ", beta " +
         std::to_string(e.beta) + ", bias " + std::to_string(static_cast<int>(e.bias));
}

/// What comes of v, and by how much fp32 may be off. Each of exp (2 units in the last place, 2^-23), its sum with 1 and the
/// quotient has its rounding; gelu's exponent, 2 u, has four of 2^-24 at most, which exp makes as many 2 u.
struct activated_value {
  double right, error;
};
inline activated_value exactly_activated(activation a, double v) {
  constexpr double unit = 0x1p-23, pi = 3.14159265358979323846;
  if (a == activation::none) return {v, 0};
  if (a == activation::relu) return {v < 0 ? 0 : v, 0};
  const double two_u = a == activation::silu ? 0 : 2 * std::sqrt(2 / pi) * (v + 0.044715 * v * v * v);
  const double right = a == activation::silu ? v / (1 + std::exp(-v)) : v / 2 * (1 + std::tanh(two_u / 2));
  // Of the smallest normal fp32 something else may become, and tanh near -1 loses what is left of a double.
  return {right, (4 + 2 * std::abs(two_u)) * unit * std::abs(right) + std::abs(v) * 0x1p-52 + 0x1p-126};
}

/// The first wrong element of c; empty if all are right.
template <class Out, class In>
std::string wrong_epilogue(const epilogue_case& e, const typed_gemm_case<In>& g, const Out* c) {
  const auto n = static_cast<std::size_t>(g.size.n);
  for (std::size_t i = 0; i < g.c.size(); ++i) {
    const double sum =
        e.alpha * g.c[i] + e.beta * held_by(e, i) + (e.bias == bias_kind::none ? 0 : bias_of(i % n));
    const activated_value value = exactly_activated(e.act, sum);
    const double found = static_cast<double>(static_cast<float>(c[i]));
    // Rounding is monotonic: what is between two floats becomes what is between what they become.
    const auto rounded = [](double v) {
      return static_cast<double>(static_cast<float>(Out{static_cast<float>(v)}));
    };
    if (found >= rounded(value.right - value.error) && found <= rounded(value.right + value.error)) continue;
    return text(g.size) + ", " + text(e) + ": c[" + std::to_string(i / n) + ", " + std::to_string(i % n) +
           "] = " + std::to_string(found) + ", expected " + std::to_string(value.right);
  }
  return "";
}

}  // namespace baton::test
