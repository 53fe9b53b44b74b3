#pragma once
// Gated products of groups, C = silu(A * gate^T) . (A * up^T), and what must come out bit for bit where sums are exact.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/fp8_rows.hpp"
#include "base/silu.hpp"
#include "tests/support/listed_rows.hpp"
#include "tests/support/scaled_gemm_case.hpp"

namespace baton::test {

/// A row of what comes out in fp32, of gate and up in double.
template <class Gate, class Up>
std::vector<float> gated_row(int n, Gate gate, Up up) {
  std::vector<float> row;
  for (int j = 0; j < n; ++j) row.push_back(silu(static_cast<float>(gate(j))) * static_cast<float>(up(j)));
  return row;
}

struct gated_gemm_case {
  grouped_gemm_case gate;
  std::vector<bfloat16> up;  // [groups, n, k]

  std::vector<float> row(int r) const {
    if (gate.k == 0) return std::vector<float>(static_cast<std::size_t>(gate.n));
    return gated_row(
        gate.n, [&](int j) { return gate.product(gate.b, r, j); },
        [&](int j) { return gate.product(up, r, j); });
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

  std::vector<float> row(int r) const {
    return gated_row(
        gate.n, [&](int j) { return gate.at(r, j).sum / 16; }, [&](int j) { return up.at(r, j).sum; });
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
