#pragma once
// What moe works on, and what it shows for people and for machines.
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <vector>

#include "cli/commands/moe.hpp"
#include "cli/layer_error.hpp"

namespace baton::cli {

inline constexpr const char* states_name = "hidden_states";
inline constexpr const char* expected_name = "moe_output";

struct layer_input {
  int tokens = 0;
  std::vector<bfloat16> hidden;                // [tokens, hidden]
  std::optional<std::vector<float>> expected;  // [tokens, hidden]
};

/// One run of the command.
struct layer_run {
  const moe_options& options;
  const model::checkpoint& weights;
  open_exchange exchange = {};
  layer_input input = {};
  std::vector<int> tokens_of_ranks = {};
  std::vector<float> output = {};
  double seconds = 0;
  std::optional<layer_error> error = {};
};

void print_layer(const layer_run& run, std::ostream& out);
nlohmann::json layer_json(const layer_run& run);

}  // namespace baton::cli
