#pragma once
// One expert applied to one token in double precision, with everything in between kept for error bounds.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/whole_arrays.hpp"
#include "cli/model/checkpoint.hpp"
#include "cli/model/moe_backend.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace baton::model {

enum class expert_part { gate, up, down };

/// One of the matrices of every expert, row by row as what the weights stand for.
class matrix_rows {
 public:
  /// `experts` must outlive this.
  matrix_rows(const expert_matrices& experts, expert_part part);

  /// use(row): that row of expert `id` as columns() bf16 or doubles, valid until the next call.
  template <class Use>
  auto with(std::int32_t id, std::size_t row, Use use) {
    const std::size_t first = (static_cast<std::size_t>(id) * rows_ + row) * columns_;
    if (fp8_ == nullptr) return use(bf16_->data() + first);
    widen(static_cast<std::size_t>(id), row, first);
    return use(static_cast<const double*>(wide_.data()));
  }
  std::size_t columns() const { return columns_; }

 private:
  void widen(std::size_t id, std::size_t row, std::size_t first);

  const std::vector<bfloat16>* bf16_ = nullptr;
  const std::vector<float8_e4m3>* fp8_ = nullptr;  // null: bf16
  const std::vector<float>* scales_ = nullptr;
  std::size_t rows_, columns_;
  std::vector<double> wide_;
};

class expert_in_double {
 public:
  explicit expert_in_double(const expert_matrices& experts);

  /// y = down * (silu(gate x) . (up x)) of expert `id`; `x` is [hidden]. Valid until the next call.
  const std::vector<double>& run(std::int32_t id, const bfloat16* x);

  const std::vector<double>& gate() const { return gate_; }    // [intermediate]: gate x
  const std::vector<double>& up() const { return up_; }        // [intermediate]: up x
  const std::vector<double>& inner() const { return inner_; }  // [intermediate]: silu(gate x) . (up x)

 private:
  matrix_rows gate_rows_, up_rows_, down_rows_;
  std::vector<double> gate_, up_, inner_, out_;
};

/// v / (1 + exp(-v))
double silu(double v);

/// As the conversion of bfloat16, which a sanitizer keeps from being a part of the loops below.
__attribute__((always_inline)) inline double widened(const bfloat16& v) {
  return double{__builtin_bit_cast(float, std::uint32_t{v.bits} << 16)};
}

__attribute__((always_inline)) inline double widened(const double& v) {
  return v;
}

/// Two doubles multiply and add as one, however little the compiler optimises.
using two_doubles = double __attribute__((vector_size(16)));

__attribute__((always_inline)) inline two_doubles two_at(const double* v) {
  two_doubles both;
  __builtin_memcpy(&both, v, sizeof(both));
  return both;
}
__attribute__((always_inline)) inline two_doubles two_at(const bfloat16* v) {
#if defined(__SSE2__)
  std::int32_t both;
  __builtin_memcpy(&both, v, sizeof(both));
  return _mm_cvtps_pd(_mm_castsi128_ps(_mm_unpacklo_epi16(_mm_setzero_si128(), _mm_cvtsi32_si128(both))));
#else
  return two_doubles{widened(v[0]), widened(v[1])};
#endif
}

/// sum of a[i] * x[i] in double; a is bf16 or double.
template <class Value>
BATON_READS_WHOLE_ARRAYS double dot_in_double(const Value* a, const double* x, int n) {
  look_at(a, static_cast<std::size_t>(n));
  look_at(x, static_cast<std::size_t>(n));
  two_doubles first{}, second{}, third{}, fourth{};
  int i = 0;
  for (; i + 8 <= n; i += 8) {
    first += two_at(a + i) * two_at(x + i);
    second += two_at(a + i + 2) * two_at(x + i + 2);
    third += two_at(a + i + 4) * two_at(x + i + 4);
    fourth += two_at(a + i + 6) * two_at(x + i + 6);
  }
  two_doubles sums[4] = {first, second, third, fourth};
  for (int l = 0; i + l < n; ++l) sums[l / 2][l % 2] += widened(a[i + l]) * x[i + l];
  const two_doubles low = sums[0] + sums[2], high = sums[1] + sums[3];
  return (low[0] + low[1]) + (high[0] + high[1]);
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
