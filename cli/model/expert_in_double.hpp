#pragma once
// One expert applied to one token in double precision, with everything in between kept for error bounds.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/whole_arrays.hpp"
#include "cli/model/checkpoint.hpp"
#include "cli/model/moe_backend.hpp"

namespace baton::model {

class expert_in_double {
 public:
  explicit expert_in_double(const expert_matrices& experts);

  /// y = down * (silu(gate x) . (up x)) of expert `id`; `x` is [hidden]. Valid until the next call.
  const std::vector<double>& run(std::int32_t id, const bfloat16* x);

  const std::vector<double>& gate() const { return gate_; }    // [intermediate]: gate x
  const std::vector<double>& up() const { return up_; }        // [intermediate]: up x
  const std::vector<double>& inner() const { return inner_; }  // [intermediate]: silu(gate x) . (up x)

 private:
  const expert_matrices& experts_;
  std::vector<double> gate_, up_, inner_, out_;
};

/// v / (1 + exp(-v))
double silu(double v);

/// Row `row` of the [num_experts, rows, columns] matrices `all`, for expert `id`.
const bfloat16* matrix_row(const std::vector<bfloat16>& all, std::int32_t id, int rows, int columns, int row);

/// As the conversion of bfloat16, which a sanitizer keeps from being a part of the loops below.
__attribute__((always_inline)) inline double widened(const bfloat16& v) {
  return double{__builtin_bit_cast(float, std::uint32_t{v.bits} << 16)};
}

/// sum of a[i] * x[i] in double.
BATON_READS_WHOLE_ARRAYS inline double dot_in_double(const bfloat16* a, const double* x, int n) {
  look_at(a, static_cast<std::size_t>(n));
  look_at(x, static_cast<std::size_t>(n));
  double sums[8] = {};
  int i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int l = 0; l < 8; ++l) sums[l] += widened(a[i + l]) * x[i + l];
  }
  for (int l = 0; i + l < n; ++l) sums[l] += widened(a[i + l]) * x[i + l];
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

/// @throws invalid_argument  the arrays of `tokens` do not fit each other or the experts
void require_routing(const expert_matrices& experts, const routed_tokens& tokens);

/// visit(token, expert id, weight) for every choice of every token that require_routing passed; choices of -1 are
/// left out.
template <class Visit>
void for_each_choice(const routed_tokens& tokens, Visit visit) {
  if (tokens.tokens == 0) return;
  const std::size_t top_k = tokens.topk_idx.size() / static_cast<std::size_t>(tokens.tokens);
  for (std::size_t i = 0; i < tokens.topk_idx.size(); ++i) {
    if (tokens.topk_idx[i] >= 0) visit(i / top_k, tokens.topk_idx[i], double{tokens.topk_weights[i]});
  }
}

}  // namespace baton::model
