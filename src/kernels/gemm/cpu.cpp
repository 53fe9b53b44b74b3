#include "kernels/gemm/cpu.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include "base/dot.hpp"
#include "base/math.hpp"

namespace baton::gemm_cpu {

/// Rows of A that share one conversion of each row of B.
constexpr std::size_t block_rows = 16;

template <class Out>
void run(const gemm_problem<Out>& p) {
  const auto m = static_cast<std::size_t>(p.m), n = static_cast<std::size_t>(p.n),
             k = static_cast<std::size_t>(p.k);
  std::vector<float> left(block_rows * k), right(k);
  for (std::size_t first = 0; first < m; first += block_rows) {
    const std::size_t rows = std::min(block_rows, m - first);
    if (k > 0) widen(p.a + first * k, rows * k, left.data());
    for (std::size_t j = 0; j < n; ++j) {
      if (k > 0) widen(p.b + j * k, k, right.data());
      for (std::size_t r = 0; r < rows; ++r) {
        Out& c = p.c[(first + r) * n + j];
        const float sum = p.alpha * (k > 0 ? dot(left.data() + r * k, right.data(), k) : 0.0f);
        c = Out{p.beta == 0.0f ? sum : std::fma(p.beta, static_cast<float>(c), sum)};
      }
    }
  }
}

namespace {

struct group_rows {
  std::size_t group, first, count;
};
/// f(rows) for each group, bounded by the memory there is.
template <class Operands, class F>
void each_group(const Operands& p, F f) {
  for (int g = 0; g < p.groups; ++g) {
    const int first = std::clamp(p.firsts == nullptr ? g * p.stride : p.firsts[g], 0, p.m);
    const int rows = std::clamp(p.counts[g], 0, p.m - first);
    f(group_rows{static_cast<std::size_t>(g), static_cast<std::size_t>(first),
                 static_cast<std::size_t>(rows)});
  }
}

void widen(const float8_e4m3* from, std::size_t n, float* to) {
  static const std::array<float, 256> value = [] {
    std::array<float, 256> of{};
    for (std::size_t bits = 0; bits < of.size(); ++bits)
      of[bits] = static_cast<float>(float8_e4m3::from_bits(static_cast<std::uint8_t>(bits)));
    return of;
  }();
  for (std::size_t i = 0; i < n; ++i) to[i] = value[from[i].bits];
}

/// By one row of b.
void multiply(const gemm_kernels::operands<bfloat16, float8_e4m3>& p, const group_rows& rows, std::size_t j,
              const std::vector<float>& left, std::vector<float>& right) {
  constexpr std::size_t block = 128;
  const auto n = static_cast<std::size_t>(p.n), k = static_cast<std::size_t>(p.k);
  const std::size_t steps = ceil_div(k, block);
  widen(p.b + (rows.group * n + j) * k, k, right.data());
  const float* b_scales = p.b_scales + (rows.group * ceil_div(n, block) + j / block) * steps;
  for (std::size_t r = 0; r < rows.count; ++r) {
    const float* a_scales = p.a_scales + (rows.first + r) * static_cast<std::size_t>(p.a_scale_row);
    float sum = 0;
    for (std::size_t s = 0; s < steps; ++s) {
      const std::size_t at = s * block;
      const float part = dot(left.data() + r * k + at, right.data() + at, std::min(block, k - at));
      sum = std::fma(part, a_scales[s * static_cast<std::size_t>(p.a_scale_block)] * b_scales[s], sum);
    }
    p.c[(rows.first + r) * n + j] = bfloat16{sum};
  }
}

}  // namespace

void run(const gemm_kernels::operands<bfloat16>& p) {
  const auto n = static_cast<std::size_t>(p.n), k = static_cast<std::size_t>(p.k);
  each_group(p, [&](const group_rows& rows) {
    run(gemm_problem<bfloat16>{p.a + rows.first * k, p.b + rows.group * n * k, p.c + rows.first * n,
                               static_cast<int>(rows.count), p.n, p.k});
  });
}

void run(const gemm_kernels::operands<bfloat16, float8_e4m3>& p) {
  const auto k = static_cast<std::size_t>(p.k);
  std::vector<float> left(block_rows * k), right(k);
  const auto multiply_group = [&](const group_rows& rows) {
    for (std::size_t done = 0; done < rows.count; done += block_rows) {
      const group_rows some{rows.group, rows.first + done, std::min(block_rows, rows.count - done)};
      if (k > 0) widen(p.a + some.first * k, some.count * k, left.data());
      for (std::size_t j = 0; j < static_cast<std::size_t>(p.n); ++j) multiply(p, some, j, left, right);
    }
  };
  if (p.groups == 0) return multiply_group({0, 0, static_cast<std::size_t>(p.m)});
  each_group(p, multiply_group);
}

template void run(const gemm_problem<bfloat16>&);
template void run(const gemm_problem<float>&);

}  // namespace baton::gemm_cpu
