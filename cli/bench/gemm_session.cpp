#include "cli/bench/gemm_session.hpp"

namespace baton::cli {

template <class Problem>
gemm_session<Problem>::gemm_session(const world& world, const gemm_shape& s)
    : world_{world},
      shape_{s},
      operands_{operands_of(world, s)},
      c_{world,
         static_cast<std::size_t>(s.m) * static_cast<std::size_t>(s.n),
         {"the product", "lower the sizes"}} {}

template <class Problem>
auto gemm_session<Problem>::operands_of(const world& world, const gemm_shape& s) -> operands {
  const grouped_shape one{{}, {}, 1, s.n, s.k};
  if constexpr (std::is_same_v<Problem, scaled_gemm_problem>)
    return operands{world, one, s.m, scale_layout::column_major};
  else
    return operands{world, one, s.m};
}

template <class Problem>
Problem gemm_session<Problem>::problem() {
  const auto of = operands_.problem();
  Problem p;
  p.a = of.a;
  p.b = of.b;
  p.c = c_.data();
  p.m = shape_.m;
  p.n = shape_.n;
  p.k = shape_.k;
  if constexpr (std::is_same_v<Problem, scaled_gemm_problem>) {
    p.a_scales = of.a_scales;
    p.b_scales = of.b_scales;
    p.a_layout = of.a_layout;
  } else {
    p.b_layout = shape_.b_layout;
  }
  return p;
}

template <class Problem>
double gemm_session<Problem>::expected(std::size_t row, std::size_t column) const {
  if constexpr (!std::is_same_v<Problem, scaled_gemm_problem>)
    if (shape_.b_layout == gemm_b_layout::k_by_n) return operands_.expected_of_k_by_n(row, column);
  return operands_.expected(row, column, 0);
}

template <class Problem>
std::string gemm_session<Problem>::first_wrong(const product<Problem>& run) {
  constexpr unsigned char poison = 0xff;  // NaN
  c_.fill_async(poison);
  enqueue(run, {});
  return first_wrong_value(world_, c_.data(), static_cast<std::size_t>(shape_.n), spread_out(c_.size()),
                           [this](std::size_t row, std::size_t column) { return expected(row, column); });
}

template class gemm_session<gemm_problem<bfloat16>>;
template class gemm_session<gemm_problem<float>>;
template class gemm_session<gemm_problem<float16, float16>>;
template class gemm_session<gemm_problem<float, float16>>;
template class gemm_session<scaled_gemm_problem>;

}  // namespace baton::cli
