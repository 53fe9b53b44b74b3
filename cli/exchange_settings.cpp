#include "cli/exchange_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "cli/config_words.hpp"
#include "cli/recorded_routing.hpp"

namespace baton::cli {
namespace {

/// The device that serves `num_ranks` ranks; tried by joining them, which also checks peer access.
device_kind chosen_device(const exchange_settings& settings, std::string& why_not_cuda) {
  if (settings.device == device_choice::cpu) return device_kind::cpu;
  if (settings.device == device_choice::cuda) return device_kind::cuda;
  try {
    world::local(settings.num_ranks, device_kind::cuda);
    return device_kind::cuda;
  } catch (const unsupported& e) {
    why_not_cuda = short_reason(e.what());
  } catch (const cuda_error& e) {
    why_not_cuda = short_reason(e.what());
  }
  return device_kind::cpu;
}

/// How many, and the loads of each of the model's layers in the recording.
void add_replicas(const model::model_config& model, const exchange_settings& settings,
                  exchange_options& options) {
  const int most = model.num_experts * (settings.num_ranks - 1);
  if (settings.num_replicas > most)
    throw invalid_argument{
        fmt::format("--replicas: {} are more than the {} that {} experts on {} ranks can have",
                    settings.num_replicas, most, model.num_experts, settings.num_ranks)};
  options.num_replicas = settings.num_replicas;
  if (settings.trace.empty()) return;
  const recorded_routing recorded = read_recorded_routing(settings.trace);
  const auto layers = static_cast<std::size_t>(model.num_hidden_layers);
  if (recorded.layers.size() != layers || recorded.num_experts > model.num_experts)
    throw invalid_argument{fmt::format("--trace: has {} layers and {} experts, the model {} and {}",
                                       recorded.layers.size(), recorded.num_experts, layers,
                                       model.num_experts)};
  for (std::size_t layer = 0; layer < layers; ++layer) {
    options.past_loads.push_back(loads_of(recorded, layer));
    options.past_loads.back().resize(static_cast<std::size_t>(model.num_experts), 0);
  }
}

}  // namespace

std::string short_reason(const std::string& text) {
  const std::string argument = "device_kind::cuda: ";
  const std::size_t begin = text.starts_with(argument) ? argument.size() : 0;
  return text.substr(begin, text.find(". ", begin) - begin);
}

const char* name(device_kind device) {
  return device == device_kind::cuda ? "cuda" : "cpu";
}
const char* name(arrival_policy arrival) {
  return arrival == arrival_policy::epoch ? "epoch" : "sentinel";
}
const char* name(ep_layout layout) {
  return layout == ep_layout::per_expert ? "per_expert" : "per_rank";
}

void check_settings(const exchange_settings& settings) {
  // The model is not open yet: any that fits will do.
  const ep_config config{.num_experts = settings.num_ranks,
                         .top_k = 1,
                         .hidden = 128,
                         .num_max_tokens_per_rank = settings.max_tokens_per_rank};
  require_served(config, settings.num_ranks, exchange_words);
  if (settings.num_replicas < 0)
    throw invalid_argument{fmt::format("--replicas: {} is below 0", settings.num_replicas)};
  if (!settings.trace.empty() && settings.num_replicas == 0)
    throw invalid_argument{"--trace: says how --replicas are placed, of which there are none"};
}

open_exchange load_exchange(const model::checkpoint& weights, std::span<const int> layers,
                            const exchange_settings& settings, int most_tokens) {
  check_settings(settings);
  if (settings.num_ranks > weights.config().num_experts) {
    throw invalid_argument{
        fmt::format("--ranks {}: the model has {} experts and every rank needs at least one",
                    settings.num_ranks, weights.config().num_experts)};
  }
  exchange_options options;
  options.num_ranks = settings.num_ranks;
  options.format = settings.format;
  options.combine_format = settings.combine_format;
  options.arrival = settings.arrival;
  options.layout = settings.layout;
  options.transfer = settings.transfer;
  options.rows = settings.rows;
  options.max_tokens_per_rank = std::clamp(most_tokens, 1, settings.max_tokens_per_rank);
  if (settings.num_replicas > 0) add_replicas(weights.config(), settings, options);
  open_exchange opened;
  options.device = chosen_device(settings, opened.why_not_cuda);
  if (options.device == device_kind::cuda && options.format > token_format::blockwise_fp8)
    throw invalid_argument{
        fmt::format("--format {}: experts on GPUs take bf16 and fp8; use one of these, or --device cpu",
                    name(options.format))};
  opened.experts = std::make_unique<exchange_moe>(weights, layers, options);
  return opened;
}

std::string placement(const exchange_moe& experts) {
  const world& first = experts.rank(0);
  const std::string ranks = fmt::format("{} rank{}", first.size(), first.size() == 1 ? "" : "s");
  if (first.device() == device_kind::cpu) return ranks + " on the CPU";
  std::set<int> devices;
  for (int r = 0; r < first.size(); ++r) devices.insert(experts.rank(r).device_index());
  return fmt::format("{} on {} GPU{}", ranks, devices.size(), devices.size() == 1 ? "" : "s");
}

}  // namespace baton::cli
