#pragma once
// Groups of rows, a matrix for each, and what must come out, for both devices.
#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "baton/numeric.hpp"
#include "baton/quantise.hpp"

namespace baton::test {

/// `Value` is bfloat16 or float16.
template <class Value>
struct typed_grouped_case {
  int n, k, max_rows;
  std::vector<std::int32_t> counts, firsts;
  std::vector<Value> a, b;  // [max_rows, k], [groups, n, k]
  std::vector<int> group;   // [max_rows]: the row's; -1: none's

  double product(const std::vector<Value>& of, int row, int column) const {
    const auto k_values = static_cast<std::size_t>(k);
    const auto* left = a.data() + static_cast<std::size_t>(row) * k_values;
    const auto* right = of.data() + (static_cast<std::size_t>(group[static_cast<std::size_t>(row)]) *
                                         static_cast<std::size_t>(n) +
                                     static_cast<std::size_t>(column)) *
                                        k_values;
    double sum = 0;
    for (std::size_t l = 0; l < k_values; ++l)
      sum += static_cast<double>(static_cast<float>(left[l])) *
             static_cast<double>(static_cast<float>(right[l]));
    return sum;
  }
};
using grouped_gemm_case = typed_grouped_case<bfloat16>;

/// A case's groups, as users give them.
template <class Case>
row_selection rows_of(const Case& g) {
  return {.max_rows = g.max_rows,
          .counts = g.counts.data(),
          .firsts = g.firsts.data(),
          .num_ranges = static_cast<int>(g.counts.size())};
}

/// Says in `made` which rows are whose: those of a group lie one after the other, `gap` rows of nobody behind each.
template <class Case>
void lay_groups_out(Case& made, std::span<const int> counts, int gap) {
  for (const int count : counts) {
    made.counts.push_back(count);
    made.firsts.push_back(made.max_rows);
    made.group.insert(made.group.end(), static_cast<std::size_t>(count),
                      static_cast<int>(made.counts.size()) - 1);
    made.group.insert(made.group.end(), static_cast<std::size_t>(gap), -1);
    made.max_rows += count + gap;
  }
}

/// Groups laid out so. Integers from -`most` to `most`, and NaN in rows of
/// nobody.
template <class Value = bfloat16>
typed_grouped_case<Value> integer_groups(std::span<const int> counts, int n, int k, int gap = 0,
                                         std::uint32_t seed = 1, int most = 19) {
  std::mt19937 random{seed};
  const auto draw = [&] {
    return Value{static_cast<float>(static_cast<int>(random() % static_cast<unsigned>(2 * most + 1)) - most)};
  };
  typed_grouped_case<Value> made{n, k, 0, {}, {}, {}, {}, {}};
  lay_groups_out(made, counts, gap);
  for (const int group : made.group)
    for (int l = 0; l < k; ++l) made.a.push_back(group < 0 ? Value{std::nanf("")} : draw());
  const auto values = counts.size() * static_cast<std::size_t>(n) * static_cast<std::size_t>(k);
  for (std::size_t i = 0; i < values; ++i) made.b.push_back(draw());
  return made;
}

/// The first wrong value of c, which held `before` where no group has a row; empty if there is none.
template <class Value>
std::string wrong_value(const typed_grouped_case<Value>& g, const std::vector<Value>& c, float before) {
  for (int row = 0; row < g.max_rows; ++row) {
    for (int column = 0; column < g.n; ++column) {
      const bool is_of_group = g.group[static_cast<std::size_t>(row)] >= 0;
      const float right =
          is_of_group ? static_cast<float>(Value{static_cast<float>(g.product(g.b, row, column))}) : before;
      const auto found = static_cast<float>(c[static_cast<std::size_t>(row) * static_cast<std::size_t>(g.n) +
                                              static_cast<std::size_t>(column)]);
      if (found == right) continue;
      return "c[" + std::to_string(row) + ", " + std::to_string(column) + "] = " + std::to_string(found) +
             ", expected " + std::to_string(right);
    }
  }
  return "";
}

}  // namespace baton::test
