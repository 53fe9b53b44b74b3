#include "kernels/gemm/cpu.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "base/activation.hpp"
#include "base/dot.hpp"
#include "base/fp8_rows.hpp"

namespace baton::gemm_cpu {

/// Rows of A that share one conversion of each row of B, and columns of B [k, n] that are read together.
constexpr std::size_t block_rows = 16, block_columns = 16;

/// Columns `first` on of B [k, n], one after the other.
template <class In>
void widen_columns(const In* b, std::size_t k, std::size_t n, std::size_t first, std::size_t count,
                   float* to) {
  for (std::size_t l = 0; l < k; ++l)
    for (std::size_t j = 0; j < count; ++j) to[j * k + l] = static_cast<float>(b[l * n + first + j]);
}

/// activation(sum + bias), times the row's weight.
template <class Out>
struct ending {
  const Out* bias = nullptr;  // from here on of n columns
  const float* fp32_bias = nullptr;
  activation act = activation::none;
  const float* row_weights = nullptr;

  float of(float sum, std::size_t row, std::size_t column) const {
    if (fp32_bias != nullptr) sum += fp32_bias[column];
    if (bias != nullptr) sum += static_cast<float>(bias[column]);
    const float value = activated(act, sum);
    return row_weights == nullptr ? value : value * row_weights[row];
  }
};
/// What a problem of groups asks for, from a row of c on, of a group.
template <class Out, class In>
ending<Out> ending_of(const gemm_kernels::operands<Out, In>& p, std::size_t first_row, std::size_t group) {
  const std::size_t biases = group * static_cast<std::size_t>(p.n);
  return {p.bias == nullptr ? nullptr : p.bias + biases,
          p.fp32_bias == nullptr ? nullptr : p.fp32_bias + biases, p.act,
          p.row_weights == nullptr ? nullptr : p.row_weights + first_row};
}

template <class Out, class In>
void multiply(const gemm_problem<Out, In>& p, const ending<Out>& end) {
  const auto m = static_cast<std::size_t>(p.m), n = static_cast<std::size_t>(p.n),
             k = static_cast<std::size_t>(p.k);
  std::vector<float> left(std::min(block_rows, m) * k), right(std::min(block_columns, n) * k);
  for (std::size_t first = 0; first < m; first += block_rows) {
    const std::size_t rows = std::min(block_rows, m - first);
    if (k > 0) widen(p.a + first * k, rows * k, left.data());
    for (std::size_t j = 0; j < n; ++j) {
      const std::size_t column = j % block_columns, columns = std::min(block_columns, n - j);
      if (column == 0 && k > 0 && p.b_layout == gemm_b_layout::n_by_k)
        widen(p.b + j * k, columns * k, right.data());
      else if (column == 0 && k > 0)
        widen_columns(p.b, k, n, j, columns, right.data());
      for (std::size_t r = 0; r < rows; ++r) {
        Out& c = p.c[(first + r) * n + j];
        float sum = p.alpha * (k > 0 ? dot(left.data() + r * k, right.data() + column * k, k) : 0.0f);
        if (p.beta != 0.0f) sum = std::fma(p.beta, static_cast<float>(c), sum);
        c = Out{end.of(sum, first + r, j)};
      }
    }
  }
}

template <class Out, class In>
void run(const gemm_problem<Out, In>& p) {
  multiply(p, ending<Out>{p.bias, p.fp32_bias, p.act});
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

/// Which row of a row r of c is made of.
template <class Operands>
std::size_t row_of_a(const Operands& p, std::size_t r) {
  return p.a_list == nullptr ? r : static_cast<std::size_t>(std::clamp(p.a_list[r], 0, p.num_a_rows - 1));
}

template <class Out, class In>
const In* values_of(const gemm_kernels::operands<Out, In>& p, std::size_t r) {
  const std::size_t step = p.a_list == nullptr ? static_cast<std::size_t>(p.k) * sizeof(In)
                                               : static_cast<std::size_t>(p.a_row_bytes);
  return reinterpret_cast<const In*>(reinterpret_cast<const std::byte*>(p.a) + row_of_a(p, r) * step);
}

float scale_at(const float* fp32, const float8_e8m0* exponents, std::size_t index) {
  return exponents == nullptr ? fp32[index] : static_cast<float>(exponents[index]);
}

/// Some rows of a group, with one conversion of each row of b.
void multiply(const gemm_kernels::operands<bfloat16, float8_e4m3>& p, const group_rows& rows) {
  const auto n = static_cast<std::size_t>(p.n), k = static_cast<std::size_t>(p.k);
  const std::size_t steps = fp8_scales(k);
  const ending<bfloat16> end = ending_of(p, rows.first, rows.group);
  std::vector<float> left(rows.count * k), right(k), scales(rows.count * steps), b_scales(steps);
  for (std::size_t r = 0; r < rows.count && k > 0; ++r)
    widen(values_of(p, rows.first + r), k, left.data() + r * k);
  for (std::size_t i = 0; i < scales.size(); ++i)
    scales[i] = scale_at(p.a_scales, p.a_exponents,
                         row_of_a(p, rows.first + i / steps) * static_cast<std::size_t>(p.a_scale_row) +
                             i % steps * static_cast<std::size_t>(p.a_scale_block));
  for (std::size_t j = 0; j < n; ++j) {
    if (k > 0) widen(p.b + (rows.group * n + j) * k, k, right.data());
    const std::size_t of_b = (rows.group * fp8_scales(n) + j / fp8_block) * steps;
    for (std::size_t i = 0; i < steps && j % fp8_block == 0; ++i)
      b_scales[i] = scale_at(p.b_scales, p.b_exponents, of_b + i);
    for (std::size_t r = 0; r < rows.count; ++r) {
      const float sum = k == 0 ? 0.0f
                               : scaled_dot(left.data() + r * k, scales.data() + r * steps, right.data(),
                                            b_scales.data(), k);
      p.c[(rows.first + r) * n + j] = bfloat16{end.of(sum, r, j)};
    }
  }
}

}  // namespace

template <class Value>
void run(const gemm_kernels::operands<Value, Value>& p) {
  const auto n = static_cast<std::size_t>(p.n), k = static_cast<std::size_t>(p.k);
  each_group(p, [&](const group_rows& rows) {
    std::vector<Value> listed(p.a_list == nullptr ? 0 : rows.count * k);
    for (std::size_t r = 0; r < rows.count && !listed.empty(); ++r)
      std::copy_n(values_of(p, rows.first + r), k, listed.data() + r * k);
    multiply(gemm_problem<Value, Value>{p.a_list == nullptr ? p.a + rows.first * k : listed.data(),
                                        p.b + rows.group * n * k, p.c + rows.first * n,
                                        static_cast<int>(rows.count), p.n, p.k},
             ending_of(p, rows.first, rows.group));
  });
}

void run(const gemm_kernels::operands<bfloat16, float8_e4m3>& p) {
  const auto multiply_group = [&](const group_rows& rows) {
    for (std::size_t done = 0; done < rows.count; done += block_rows)
      multiply(p, {rows.group, rows.first + done, std::min(block_rows, rows.count - done)});
  };
  if (p.groups == 0) return multiply_group({0, 0, static_cast<std::size_t>(p.m)});
  each_group(p, multiply_group);
}

template void run(const gemm_problem<bfloat16>&);
template void run(const gemm_problem<float>&);
template void run(const gemm_problem<float16, float16>&);
template void run(const gemm_problem<float, float16>&);
template void run(const gemm_kernels::operands<bfloat16>&);
template void run(const gemm_kernels::operands<float16, float16>&);

}  // namespace baton::gemm_cpu
