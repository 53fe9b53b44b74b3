#pragma once
// What a grouped product is measured with, in each format of its operands.
#include <cstddef>

#include "baton/scaled_gemm.hpp"
#include "cli/bench/gemm_operands.hpp"
#include "cli/bench/grouped_points.hpp"

namespace baton::cli {

/// `Problem` is a grouped_problem or scaled_grouped_gemm_problem. Operands of `rows` rows.
template <class Problem>
class grouped_operands;

template <class Value>
class grouped_operands<grouped_problem<Value>> {
 public:
  grouped_operands(const world& world, const grouped_shape& shape, int rows);
  /// The problem with these operands.
  grouped_problem<Value> problem() const { return {.a = a_.data(), .b = b_.data()}; }
  void random_values();
  /// What must come out.
  double expected(std::size_t row, std::size_t column, std::size_t group) const;
  /// The same of the only group, whose b is taken as [k, n].
  double expected_of_k_by_n(std::size_t row, std::size_t column) const;

 private:
  grouped_shape shape_;
  gemm_operand<Value> a_, b_;
};
extern template class grouped_operands<grouped_gemm_problem>;
extern template class grouped_operands<fp16_grouped_gemm_problem>;

/// `layout` is that of a's scales.
template <>
class grouped_operands<scaled_grouped_gemm_problem> {
 public:
  grouped_operands(const world& world, const grouped_shape& shape, int rows,
                   scale_layout layout = scale_layout::row_major);
  scaled_grouped_gemm_problem problem() const {
    return {.a = a_.data(),
            .a_scales = a_scales_.data(),
            .b = b_.data(),
            .b_scales = b_scales_.data(),
            .a_layout = layout_};
  }
  void random_values();
  double expected(std::size_t row, std::size_t column, std::size_t group) const;

 private:
  grouped_shape shape_;
  scale_layout layout_;
  std::size_t rows_, steps_, column_blocks_;
  gemm_operand<float8_e4m3> a_, b_;
  gemm_operand<float> a_scales_, b_scales_;
};

}  // namespace baton::cli
