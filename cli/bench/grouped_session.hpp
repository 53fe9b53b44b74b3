#pragma once
// One grouped product on one device, ready to run, checked and timed.
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "cli/bench/grouped_operands.hpp"

namespace baton::cli {

/// Puts one product on a stream.
template <class Problem>
using grouped_product = std::function<void(const Problem&, stream_ref)>;

/// Groups lie one behind the other, in order. Operands with which every result is exact, until random_values().
template <class Problem>
class grouped_session {
 public:
  /// `counts`: of each of the shape's groups; not all are 0.
  grouped_session(const world& world, const grouped_shape& shape, std::vector<std::int32_t> counts);

  /// Poisons the result, runs once, and compares spread-out elements, and one of the first and the last row of each group, with
  /// sums in double precision. Empty: all right.
  std::string first_wrong(const grouped_product<Problem>& run);
  void random_values() { operands_.random_values(); }
  void enqueue(const grouped_product<Problem>& run, stream_ref stream);

 private:
  std::vector<std::size_t> places() const;
  double expected(std::size_t row, std::size_t column) const;

  world world_;
  grouped_shape shape_;
  std::vector<std::int32_t> counts_, firsts_;
  int rows_;
  device_buffer<std::int32_t> device_counts_, device_firsts_;
  grouped_operands<Problem> operands_;
  device_buffer<std::remove_pointer_t<decltype(Problem::c)>> c_;
};
extern template class grouped_session<grouped_gemm_problem>;
extern template class grouped_session<fp16_grouped_gemm_problem>;
extern template class grouped_session<scaled_grouped_gemm_problem>;

}  // namespace baton::cli
