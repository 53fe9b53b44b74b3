#pragma once
// One product on one device, ready to run, checked and timed.
#include <functional>
#include <string>
#include <type_traits>

#include "baton/device_buffer.hpp"
#include "baton/scaled_gemm.hpp"
#include "cli/bench/grouped_operands.hpp"

namespace baton::cli {

struct gemm_shape {
  int m = 0, n = 0, k = 0;
  gemm_b_layout b_layout = gemm_b_layout::n_by_k;  // of e4m3 there is no other

  double flops() const { return 2.0 * m * n * k; }
};

/// Puts one product on a stream. `Problem` is a gemm_problem or scaled_gemm_problem.
template <class Problem>
using product = std::function<void(const Problem&, stream_ref)>;

/// The same product of groups, of which a dense one is a single one.
template <class Problem>
struct grouped_form;
template <class Out, class In>
struct grouped_form<gemm_problem<Out, In>> {
  using type = grouped_problem<In>;
};
template <>
struct grouped_form<scaled_gemm_problem> {
  using type = scaled_grouped_gemm_problem;
};

/// Operands with which every result is exact, until random_values(). Scales of a are column-major, as cuBLASLt takes them.
template <class Problem>
class gemm_session {
  using operands = grouped_operands<typename grouped_form<Problem>::type>;
  using result = std::remove_pointer_t<decltype(Problem::c)>;

 public:
  gemm_session(const world& world, const gemm_shape& shape);

  Problem problem();
  /// Poisons the result, runs once, and compares spread-out elements with sums in double precision. Empty: all right.
  std::string first_wrong(const product<Problem>& run);
  void random_values() { operands_.random_values(); }
  void enqueue(const product<Problem>& run, stream_ref stream) { run(problem(), stream); }

 private:
  static operands operands_of(const world& world, const gemm_shape& shape);
  double expected(std::size_t row, std::size_t column) const;

  world world_;
  gemm_shape shape_;
  operands operands_;
  device_buffer<result> c_;
};

extern template class gemm_session<gemm_problem<bfloat16>>;
extern template class gemm_session<gemm_problem<float>>;
extern template class gemm_session<gemm_problem<float16, float16>>;
extern template class gemm_session<gemm_problem<float, float16>>;
extern template class gemm_session<scaled_gemm_problem>;

}  // namespace baton::cli
