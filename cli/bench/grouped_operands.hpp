#pragma once
// What a grouped product is measured with, in each format of its operands.
#include <cstddef>

#include "baton/scaled_gemm.hpp"
#include "cli/bench/gemm_operands.hpp"
#include "cli/bench/grouped_points.hpp"

namespace baton::cli {

/// `Problem` is grouped_gemm_problem or scaled_grouped_gemm_problem. Operands of `rows` rows.
template <class Problem>
class grouped_operands;

template <>
class grouped_operands<grouped_gemm_problem> {
 public:
  grouped_operands(const world& world, const grouped_shape& shape, int rows);
  /// The problem with these operands.
  grouped_gemm_problem problem() const { return {.a = a_.data(), .b = b_.data()}; }
  void random_values();
  /// What must come out.
  double expected(std::size_t row, std::size_t column, std::size_t group) const;

 private:
  grouped_shape shape_;
  gemm_operand<bfloat16> a_, b_;
};

/// Scales of a are row-major.
template <>
class grouped_operands<scaled_grouped_gemm_problem> {
 public:
  grouped_operands(const world& world, const grouped_shape& shape, int rows);
  scaled_grouped_gemm_problem problem() const {
    return {.a = a_.data(), .a_scales = a_scales_.data(), .b = b_.data(), .b_scales = b_scales_.data()};
  }
  void random_values();
  double expected(std::size_t row, std::size_t column, std::size_t group) const;

 private:
  grouped_shape shape_;
  std::size_t steps_, column_blocks_;
  gemm_operand<float8_e4m3> a_, b_;
  gemm_operand<float> a_scales_, b_scales_;
};

}  // namespace baton::cli
