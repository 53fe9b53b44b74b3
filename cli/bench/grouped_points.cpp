#include "cli/bench/grouped_points.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "baton/error.hpp"
#include "cli/bench/weighted_choice.hpp"

namespace baton::cli {
namespace {

// As their config.json says: hidden_size, and moe_intermediate_size or intermediate_size of an expert. DeepSeek-V3 has 256
// experts a layer, a quarter of which is what one of four GPUs has.
constexpr moe_model models[] = {{"deepseek-v3", 64, 7168, 2048, 256, 8},
                                {"qwen3-235b", 128, 4096, 1536, 128, 8},
                                {"gpt-oss-120b", 128, 2880, 2880, 128, 4},
                                {"mixtral-8x7b", 8, 4096, 14336, 8, 2}};

/// Group g in proportion to the g-th draw's square.
weighted_choice skewed_choice(int groups, std::uint64_t seed) {
  random_bits random{~seed};
  std::vector<double> shares;
  for (int g = 0; g < groups; ++g) {
    const double u = random_bits::unit_53(random.next());
    shares.push_back(u * u);
  }
  return weighted_choice{shares};
}

template <class Draw>
std::vector<std::int32_t> counted(int groups, int rows, std::uint64_t seed, Draw draw) {
  std::vector<std::int32_t> counts(static_cast<std::size_t>(groups), 0);
  random_bits random{seed};
  for (std::int64_t row = 0; row < std::int64_t{groups} * rows; ++row)
    ++counts[static_cast<std::size_t>(draw(random))];
  return counts;
}

}  // namespace

std::span<const moe_model> moe_models() {
  return models;
}

std::string model_names() {
  std::string text;
  for (const moe_model& model : models) text += (text.empty() ? "{" : ",") + std::string{model.name};
  return text + "}";
}

const moe_model& moe_model_named(const std::string& name) {
  const auto at =
      std::find_if(std::begin(models), std::end(models), [&](const moe_model& m) { return name == m.name; });
  if (at != std::end(models)) return *at;
  throw invalid_argument{fmt::format("--models: \"{}\" is not one of {}", name, model_names())};
}

std::vector<grouped_shape> products_of(const moe_model& m) {
  return {{m.name, "gate_up", m.experts, 2 * m.intermediate, m.hidden},
          {m.name, "down", m.experts, m.hidden, m.intermediate}};
}

const char* name(group_routing routing) {
  constexpr const char* names[] = {"uniform", "zipf", "skewed"};
  return names[static_cast<std::size_t>(routing)];
}

std::vector<std::int32_t> group_counts(group_routing routing, int groups, int rows, std::uint64_t seed) {
  if (routing == group_routing::zipf)
    return counted(groups, rows, seed,
                   [by_popularity = shuffled(groups, ~seed), nth = zipf_choice(groups)](random_bits& random) {
                     return by_popularity[static_cast<std::size_t>(nth(random))];
                   });
  if (routing == group_routing::skewed) return counted(groups, rows, seed, skewed_choice(groups, seed));
  return std::vector<std::int32_t>(static_cast<std::size_t>(groups), rows);
}

}  // namespace baton::cli
