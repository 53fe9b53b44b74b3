#include "cli/recorded_routing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "cli/model/safetensors.hpp"

namespace baton::cli {
namespace {

constexpr std::int32_t most_experts = 1024, most_choices = 32;

[[noreturn]] void refuse(const model::tensor_view& tensor, std::size_t token, const std::string& found) {
  throw bad_file{fmt::format("{}: {}: token {}: {}", tensor.file(), tensor.name, token, found)};
}

recorded_routing::layer read_layer(const model::safetensors_file& file, const std::string& prefix,
                                   int& top_k) {
  const model::tensor_view& ids = file.at(prefix + "topk_ids", {-1, top_k > 0 ? top_k : -1});
  const model::tensor_view& weights = file.at(prefix + "topk_weights", ids.shape);
  if (ids.count() == 0 || ids.shape[1] > most_choices)
    throw bad_file{fmt::format("{}: {}: expected tokens with 1 to {} ids, found shape {}", ids.file(),
                               ids.name, most_choices, model::to_string(ids.shape))};
  top_k = static_cast<int>(ids.shape[1]);
  recorded_routing::layer layer{model::to_int32(ids), model::to_float(weights)};
  const auto k = static_cast<std::size_t>(top_k);
  for (std::size_t token = 0; token < layer.ids.size() / k; ++token) {
    const std::span<const std::int32_t> own{&layer.ids[token * k], k};
    const std::span<float> share{&layer.weights[token * k], k};
    float sum = 0;
    for (std::size_t c = 0; c < k; ++c) {
      if (own[c] < 0 || own[c] >= most_experts)
        refuse(ids, token, fmt::format("expert {} is outside [0, {})", own[c], most_experts));
      if (!(share[c] > 0) || !std::isfinite(share[c]))
        refuse(weights, token, fmt::format("weight {}, expected a positive one", share[c]));
      sum += share[c];
    }
    if (std::set<std::int32_t>(own.begin(), own.end()).size() != k) refuse(ids, token, "an expert twice");
    for (float& w : share) w /= sum;
  }
  return layer;
}

}  // namespace

recorded_routing read_recorded_routing(const std::filesystem::path& path) {
  const auto file = model::safetensors_file::open(path);
  recorded_routing all;
  const auto prefix = [&all] { return fmt::format("layers.{}.", all.layers.size()); };
  do all.layers.push_back(read_layer(file, prefix(), all.top_k));
  while (file.has(prefix() + "topk_ids"));
  for (const recorded_routing::layer& layer : all.layers)
    all.num_experts = std::max(all.num_experts, *std::max_element(layer.ids.begin(), layer.ids.end()) + 1);
  return all;
}

}  // namespace baton::cli
