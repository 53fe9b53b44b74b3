#pragma once
// Measured points of `baton bench gemm --grouped`, and how they are told.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "cli/bench/gemm_run.hpp"
#include "cli/bench/grouped_points.hpp"

namespace baton::cli {

struct grouped_point {
  grouped_shape shape;
  operand_format format = operand_format::bf16;
  int rows_per_group = 0;  // on average
  group_routing routing = group_routing::uniform;
  std::uint64_t seed = 0;
  std::vector<std::int32_t> counts;  // rows of each group
  std::string wrong{};               // the first wrong element; empty: all that were looked at are exact
  std::vector<double> burst_us{};
  double sustained_us = 0;  // 0: not measured

  std::int64_t rows() const;
  int groups_with_rows() const;
  /// Of operands; scales, a thirty-second more or less, are left out.
  double value_bytes() const { return cli::value_bytes(format); }
  /// Of the rows that there are.
  double flops() const { return 2.0 * static_cast<double>(rows()) * shape.n * shape.k; }
  /// Of the matrices of groups that have rows, read once.
  double weight_bytes() const { return value_bytes() * groups_with_rows() * shape.n * shape.k; }
  /// And every row read, and every result written, once.
  double bytes() const {
    return weight_bytes() + static_cast<double>(rows()) * (2.0 * shape.n + value_bytes() * shape.k);
  }
};

nlohmann::json to_json(const gemm_run& run, const grouped_point& point);
void print_heading(const grouped_shape& shape, operand_format format, std::ostream& out);
void print(const gemm_run& run, const grouped_point& point, std::ostream& out);

}  // namespace baton::cli
