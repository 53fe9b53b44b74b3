#include "cli/bench/grouped_operands.hpp"

#include <algorithm>

#include "baton/weight_format.hpp"

namespace baton::cli {
namespace {

const memory_use of_rows{"the rows", "ask for fewer or shorter ones"},
    of_matrices{"the matrices", "ask for fewer or smaller ones"};

std::size_t volume(int matrices, int rows, int columns) {
  return static_cast<std::size_t>(matrices) * static_cast<std::size_t>(rows) *
         static_cast<std::size_t>(columns);
}

/// Where row `column` of the group's matrix begins.
std::size_t row_of_b(const grouped_shape& s, std::size_t column, std::size_t group) {
  return (group * static_cast<std::size_t>(s.n) + column) * static_cast<std::size_t>(s.k);
}

}  // namespace

template <class Value>
grouped_operands<grouped_problem<Value>>::grouped_operands(const world& world, const grouped_shape& s,
                                                           int rows)
    : shape_{s},
      a_{world, volume(1, rows, s.k), 1, of_rows},
      b_{world, volume(s.groups, s.n, s.k), 2, of_matrices} {}

template <class Value>
void grouped_operands<grouped_problem<Value>>::random_values() {
  a_.random_values();
  b_.random_values();
}

template <class Value>
double grouped_operands<grouped_problem<Value>>::expected(std::size_t row, std::size_t column,
                                                          std::size_t group) const {
  const auto k = static_cast<std::size_t>(shape_.k);
  return dot(a_, row * k, b_, row_of_b(shape_, column, group), k);
}

template <class Value>
double grouped_operands<grouped_problem<Value>>::expected_of_k_by_n(std::size_t row,
                                                                    std::size_t column) const {
  const auto k = static_cast<std::size_t>(shape_.k);
  return dot(a_, row * k, b_, column, k, static_cast<std::size_t>(shape_.n));
}

template class grouped_operands<grouped_gemm_problem>;
template class grouped_operands<fp16_grouped_gemm_problem>;

grouped_operands<scaled_grouped_gemm_problem>::grouped_operands(const world& world, const grouped_shape& s,
                                                                int rows, scale_layout layout)
    : shape_{s},
      layout_{layout},
      rows_{static_cast<std::size_t>(rows)},
      steps_{static_cast<std::size_t>(weight_scales(s.k))},
      column_blocks_{static_cast<std::size_t>(weight_scales(s.n))},
      a_{world, volume(1, rows, s.k), 1, of_rows},
      b_{world, volume(s.groups, s.n, s.k), 2, of_matrices},
      a_scales_{world, rows_ * steps_, 3, of_rows},
      b_scales_{world, static_cast<std::size_t>(s.groups) * column_blocks_ * steps_, 4, of_matrices} {}

void grouped_operands<scaled_grouped_gemm_problem>::random_values() {
  a_.random_values();
  b_.random_values();
  a_scales_.random_values();
  b_scales_.random_values();
}

double grouped_operands<scaled_grouped_gemm_problem>::expected(std::size_t row, std::size_t column,
                                                               std::size_t group) const {
  const auto k = static_cast<std::size_t>(shape_.k);
  const std::size_t b_row = row_of_b(shape_, column, group);
  double sum = 0;
  for (std::size_t step = 0; step < steps_; ++step) {
    const std::size_t at = step * weight_block;
    const std::size_t of_row = layout_ == scale_layout::row_major ? row * steps_ + step : step * rows_ + row;
    const double scale =
        a_scales_.at(of_row) * b_scales_.at((group * column_blocks_ + column / weight_block) * steps_ + step);
    sum += scale * dot(a_, row * k + at, b_, b_row + at, std::min<std::size_t>(weight_block, k - at));
  }
  return sum;
}

}  // namespace baton::cli
