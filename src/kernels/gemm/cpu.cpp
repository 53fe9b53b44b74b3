#include "kernels/gemm/cpu.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "base/dot.hpp"

namespace baton::gemm_cpu {

/// Sixteen rows of A share one conversion of each row of B.
template <class Out>
void run(const gemm_problem<Out>& p) {
  constexpr std::size_t block_rows = 16;
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

void run(const gemm_kernels::operands<bfloat16>& p) {
  const auto n = static_cast<std::size_t>(p.n), k = static_cast<std::size_t>(p.k);
  for (int g = 0; g < p.groups; ++g) {
    const int first = std::clamp(p.firsts == nullptr ? g * p.stride : p.firsts[g], 0, p.m);
    const int rows = std::clamp(p.counts[g], 0, p.m - first);
    const auto row = static_cast<std::size_t>(first), group = static_cast<std::size_t>(g);
    run(gemm_problem<bfloat16>{p.a + row * k, p.b + group * n * k, p.c + row * n, rows, p.n, p.k});
  }
}

template void run(const gemm_problem<bfloat16>&);
template void run(const gemm_problem<float>&);

}  // namespace baton::gemm_cpu
