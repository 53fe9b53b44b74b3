#pragma once
// Gated products of groups, C = silu(A * gate^T) . (A * up^T), and what must come out bit for bit where sums are exact.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/activation.hpp"
#include "base/fp8_rows.hpp"
#include "tests/support/epilogue_case.hpp"
#include "tests/support/listed_rows.hpp"
#include "tests/support/scaled_gemm_case.hpp"

namespace baton::test {

/// What gated products end in: biases of both matrices, and which gate. Biases differ from group to group; those of a group
/// without rows are NaN.
struct gate_ending {
  std::vector<bfloat16> gate_bias{}, up_bias{};  // [groups, n], or none
  gating how = gating::silu;

  template <class Operands>
  void give_to(Operands& p) const {
    p.bias = gate_bias.empty() ? nullptr : gate_bias.data();
    p.up_bias = up_bias.empty() ? nullptr : up_bias.data();
    p.gate = how;
  }
};
/// Quarters from -4 to 4.
inline std::vector<bfloat16> biases_of_groups(std::span<const std::int32_t> counts, int n, int from) {
  std::vector<bfloat16> made;
  for (std::size_t g = 0; g < counts.size(); ++g)
    for (int j = 0; j < n; ++j)
      made.push_back(
          bfloat16{counts[g] > 0 ? bias_of(static_cast<std::size_t>(j + from) + 5 * g) : std::nanf("")});
  return made;
}

/// A row of what comes out in fp32, of gate and up in double.
template <class Gate, class Up>
std::vector<float> gated_row(const gate_ending& end, int group, int n, Gate gate, Up up) {
  const auto with = [&](double sum, const std::vector<bfloat16>& biases, int j) {
    const auto at = static_cast<std::size_t>(group * n + j);
    return static_cast<float>(biases.empty() ? sum
                                             : sum + static_cast<double>(static_cast<float>(biases[at])));
  };
  std::vector<float> row;
  for (int j = 0; j < n; ++j)
    row.push_back(gated(with(gate(j), end.gate_bias, j), with(up(j), end.up_bias, j), factors_of(end.how)));
  return row;
}

struct gated_gemm_case {
  grouped_gemm_case gate;
  std::vector<bfloat16> up;  // [groups, n, k]
  gate_ending end{};

  std::vector<float> row(int r) const {
    return gated_row(
        end, gate.group[static_cast<std::size_t>(r)], gate.n,
        [&](int j) { return gate.product(gate.b, r, j); }, [&](int j) { return gate.product(up, r, j); });
  }
};
/// Sums of gate are multiples of 1/16.
inline gated_gemm_case gated_groups(std::span<const int> counts, int n, int k, int gap = 0) {
  gated_gemm_case made{integer_groups(counts, n, k, gap, 1, 2), {}};
  made.up = integer_groups(counts, n, k, gap, 2, 2).b;
  for (bfloat16& v : made.gate.b) v = bfloat16{static_cast<float>(v) / 16};
  return made;
}

struct scaled_gated_case {
  scaled_gemm_case gate, up;
  gate_ending end{};

  std::vector<float> row(int r) const {
    return gated_row(
        end, gate.group[static_cast<std::size_t>(r)], gate.n, [&](int j) { return gate.at(r, j).sum / 16; },
        [&](int j) { return up.at(r, j).sum; });
  }
};
/// Scales of gate are a sixteenth of what `gate` holds.
inline scaled_gated_case scaled_gated_groups(std::span<const int> counts, int n, int k,
                                             scale_layout layout = scale_layout::row_major, int gap = 0) {
  scaled_gated_case made{scaled_groups(counts, n, k, exact_draws(21), layout, gap),
                         scaled_groups(counts, n, k, exact_draws(22), layout, gap)};
  made.up.a = made.gate.a;
  made.up.a_scales = made.gate.a_scales;
  return made;
}

}  // namespace baton::test
