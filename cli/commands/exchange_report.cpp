#include "cli/commands/exchange_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/commands/exchange_summary.hpp"
#include "cli/view/text.hpp"

namespace baton::cli {

using nlohmann::json;

std::string describe(const model::checkpoint& weights) {
  const model::model_config& config = weights.config();
  const std::string named = weights.directory().filename().empty()
                                ? weights.directory().parent_path().filename().string()
                                : weights.directory().filename().string();
  return fmt::format("{}: {} layers, hidden {}, {} experts, top-{}, {}{}", printable(named),
                     config.num_hidden_layers, config.hidden_size, config.num_experts,
                     config.num_experts_per_tok, bytes_text(weights.weight_bytes()),
                     config.allows_fp8 ? ", FP8" : "");
}

std::string describe(const open_exchange& exchange, const exchange_settings& settings) {
  const std::string note = exchange.why_not_cuda.empty() ? "" : "\nnot CUDA: " + exchange.why_not_cuda;
  const bool has_words = settings.layout == ep_layout::per_expert;
  const std::string replicas =
      settings.num_replicas > 0 ? fmt::format(", {} replicas of experts", settings.num_replicas) : "";
  const std::string back = settings.combine_format == token_format::bf16
                               ? ""
                               : fmt::format("{} combine, ", name(settings.combine_format));
  return fmt::format("{}, {} weights, {} dispatch, {}{}{}{}", placement(*exchange.experts),
                     name(exchange.experts->weights_format()), name(settings.format), back,
                     has_words ? fmt::format("{} arrival", name(settings.arrival)) : "layout per_rank",
                     replicas, note);
}

json settings_json(const open_exchange& exchange, const exchange_settings& settings) {
  json j{{"ranks", settings.num_ranks},
         {"device", name(exchange.experts->rank(0).device())},
         {"format", name(settings.format)},
         {"combine_format", name(settings.combine_format)},
         {"weights", name(exchange.experts->weights_format())},
         {"arrival", name(settings.arrival)},
         {"layout", name(settings.layout)},
         {"max_tokens_per_rank", exchange.experts->config().num_max_tokens_per_rank},
         {"device_bytes", exchange.experts->device_bytes()}};
  if (settings.num_replicas > 0) {
    j["replicas"] = settings.num_replicas;
    for (int layer = 0; layer < exchange.experts->statistics().num_layers(); ++layer)
      if (const expert_placement* const placed = exchange.experts->placement(layer))
        j["physical_to_logical"][std::to_string(layer)] = placed->physical_to_logical;
  }
  if (!exchange.why_not_cuda.empty()) j["why_not_cuda"] = printable(exchange.why_not_cuda);
  return j;
}

json statistics_json(const exchange_statistics& statistics) {
  json dispatch = json::array(), combine = json::array(), experts = json::array();
  for (int from = 0; from < statistics.num_ranks(); ++from) {
    json dispatch_row = json::array(), combine_row = json::array();
    for (int to = 0; to < statistics.num_ranks(); ++to) {
      dispatch_row.push_back(statistics.traffic().dispatch_bytes(from, to));
      combine_row.push_back(statistics.traffic().combine_bytes(from, to));
    }
    dispatch.push_back(dispatch_row);
    combine.push_back(combine_row);
  }
  for (int layer = 0; layer < statistics.num_layers(); ++layer) {
    const auto rows = statistics.rows_of_experts(layer);
    experts.push_back(std::vector<std::uint64_t>{rows.begin(), rows.end()});
  }
  return {{"rounds", statistics.rounds},
          {"wire_bytes", statistics.wire_bytes()},
          {"local_bytes", statistics.local_bytes()},
          {"dispatch_bytes", dispatch},
          {"combine_bytes", combine},
          {"rows_of_ranks", statistics.rows_of_ranks()},
          {"rows_of_experts", experts}};
}

void print_exchange(const exchange_statistics& statistics, const style& marks, std::ostream& out) {
  const auto print = [&out](const std::vector<std::string>& lines) {
    for (const std::string& line : lines) out << line << '\n';
  };
  const std::vector<std::uint64_t> rows = statistics.rows_of_experts();
  const auto busiest = std::max_element(rows.begin(), rows.end());
  const double mean = static_cast<double>(statistics.rows()) / static_cast<double>(rows.size());
  out << '\n' << marks.bold("rows computed by each rank") << '\n';
  print(rank_load(statistics, marks));
  out << '\n' << marks.bold("rows computed by each expert");
  if (mean > 0) {
    out << fmt::format(": mean {:.0f}, most {} (expert {}, {:.1f} times the mean)", mean, grouped(*busiest),
                       busiest - rows.begin(), static_cast<double>(*busiest) / mean);
  }
  out << '\n';
  print(expert_load(statistics, marks));
  out << '\n' << marks.bold("bytes moved") << '\n';
  print(bytes_moved(statistics, marks));
}

}  // namespace baton::cli
