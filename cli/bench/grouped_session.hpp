#pragma once
// One grouped product on one device, ready to run, checked and timed.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "baton/grouped_gemm.hpp"
#include "cli/bench/gemm_operands.hpp"
#include "cli/bench/grouped_points.hpp"

namespace baton::cli {

/// Puts one product on a stream.
using grouped_product = std::function<void(const grouped_gemm_problem&, stream_ref)>;

/// Groups lie one behind the other, in order. Operands of small integers, so that every result is exact, until random_values().
class grouped_session {
 public:
  /// `counts`: of each of the shape's groups; not all are 0.
  grouped_session(const world& world, const grouped_shape& shape, std::vector<std::int32_t> counts);

  /// Poisons the result, runs once, and compares spread-out elements, and one of the first and the last row of each group, with
  /// sums in double precision. Empty: all right.
  std::string first_wrong(const grouped_product& run);
  void random_values();
  void enqueue(const grouped_product& run, stream_ref stream);

 private:
  std::vector<std::size_t> places() const;
  double expected(std::size_t row, std::size_t column) const;

  world world_;
  grouped_shape shape_;
  std::vector<std::int32_t> counts_, firsts_;
  int rows_;
  device_buffer<std::int32_t> device_counts_, device_firsts_;
  gemm_operand a_, b_;
  device_buffer<bfloat16> c_;
};

}  // namespace baton::cli
