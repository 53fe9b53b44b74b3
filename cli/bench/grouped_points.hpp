#pragma once
// Which grouped products are measured: shapes of models, and how rows spread over groups.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace baton::cli {

/// One product of the experts of a layer: rows [.., k] by the group's [n, k].
struct grouped_shape {
  std::string model;    // empty: of no model
  std::string product;  // "gate_up", "down"; empty: of no model
  int groups = 0, n = 0, k = 0;
};

/// e4m3 with scales of 128 values of k and 128 columns.
enum class operand_format { bf16, fp16, e4m3 };
constexpr const char* name(operand_format format) {
  return format == operand_format::bf16 ? "bf16" : format == operand_format::fp16 ? "fp16" : "e4m3";
}
constexpr int value_bytes(operand_format format) {
  return format == operand_format::e4m3 ? 1 : 2;
}

/// Models by name, with the experts of a layer that one GPU has, and what a layer has.
struct moe_model {
  const char* name;
  int experts, hidden, intermediate;
  int experts_of_layer, top_k;
};
std::span<const moe_model> moe_models();
/// "{deepseek-v3,...}"
std::string model_names();
/// @throws invalid_argument  there is none of that name: which there are
const moe_model& moe_model_named(const std::string& name);
/// Both of its products.
std::vector<grouped_shape> products_of(const moe_model& model);

/// uniform: each group has as many rows. zipf: rows draw the n-th most popular group in proportion to 1 / n. skewed: rows draw
/// each group in proportion to the square of a number that it drew from [0, 1).
enum class group_routing { uniform, zipf, skewed };
const char* name(group_routing routing);

/// Rows of each group, `rows` on average. The same for the same seed everywhere.
std::vector<std::int32_t> group_counts(group_routing routing, int groups, int rows, std::uint64_t seed);

}  // namespace baton::cli
