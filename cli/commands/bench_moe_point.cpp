#include "cli/commands/bench_moe_point.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "baton/version.hpp"
#include "cli/exchange_settings.hpp"

namespace baton::cli {
double moe_point::weight_bytes() const {
  const int own = experts_of_rank(config.num_experts, ranks, 0).count;
  return (weights == weight_format::bf16 ? 2.0 : 1.0) * 3 * own * model.hidden * model.intermediate;
}

double moe_point::least_experts_us(const gemm_run& run) const {
  if (run.tensor_flops_per_us <= 0 || run.copied_bytes_per_us <= 0) return 0;
  const double rate = (weights == weight_format::bf16 ? 1 : 2) * run.tensor_flops_per_us;
  const int own = experts_of_rank(config.num_experts, ranks, 0).count;
  const double with_rows = std::min(1.0, rows / own);  // of experts that have rows, at most
  return std::max(flops() / rate, with_rows * weight_bytes() / run.copied_bytes_per_us);
}

const moe_point::of_micro_batches* moe_point::quickest_overlapped() const {
  const auto quickest = std::ranges::min_element(
      overlapped, {}, [](const of_micro_batches& one) { return one.layer.median_us(); });
  return quickest == overlapped.end() ? nullptr : &*quickest;
}

nlohmann::json to_json(const gemm_run& run, const moe_point& p) {
  const std::string transfer = transfer_name(p.config, p.ranks);
  nlohmann::json calls;
  nlohmann::json overlapped = nlohmann::json::array();
  for (const moe_point::of_micro_batches& one : p.overlapped)
    overlapped.push_back({{"exchange_sms", one.exchange_sms}, {"layer", to_json(one.layer)}});
  for (std::size_t i = 0; i < p.steps.size(); ++i) calls[name(steps_of(p.form)[i])] = to_json(p.steps[i]);
  return {{"schema", "baton.bench.moe/1"},
          {"model", p.model.name},
          {"ranks", p.ranks},
          {"tokens", p.config.num_max_tokens_per_rank},
          {"hidden", p.model.hidden},
          {"intermediate", p.model.intermediate},
          {"experts", p.config.num_experts},
          {"top_k", p.config.top_k},
          {"weights", name(p.weights)},
          {"format", name(p.config.format)},
          {"layout", name(p.config.layout)},
          {"transfer", transfer.empty() ? nlohmann::json() : nlohmann::json(transfer)},
          {"rows", p.config.rows == ep_rows::by_token ? "by_token" : "by_expert"},
          {"routing", name(p.given.routing)},
          {"seed", p.given.seed},
          {"rows_of_busiest_rank", p.rows},
          {"checked", p.wrong.empty()},
          {"wrong", p.wrong.empty() ? nlohmann::json() : nlohmann::json(p.wrong)},
          {"worst_part_of_bound", p.worst},
          {"rounds_timed_together", p.rounds},
          {"layer", to_json(p.layer)},
          {"exchange", to_json(p.exchange)},
          {"experts_alone", to_json(p.experts)},
          {"overlapped", overlapped},
          {"calls", calls},
          {"experts_flops", p.flops()},
          {"experts_weight_bytes", p.weight_bytes()},
          {"experts_least_us", if_measured(p.least_experts_us(run))},
          {"tensor_tflops", if_measured(run.tensor_flops_per_us / 1e6)},
          {"copied_gb_per_s", if_measured(run.copied_bytes_per_us / 1e3)},
          {"device", run.device},
          {"gpu", run.gpu.empty() ? nlohmann::json() : nlohmann::json(run.gpu)},
          {"driver", run.driver == 0 ? nlohmann::json() : nlohmann::json(run.driver)},
          {"date", run.date},
          {"version", version()},
          {"build", build_info()}};
}

void print_heading(const gemm_run& run, std::ostream& out) {
  print_limits(run, "A layer of experts: dispatch, both products of each expert, combine", out);
  out << fmt::format("\n{:<14}{:>6}{:>8}{:>9}{:>8}{:>9}{:>8}{:>13}{:>11}{:>10}{:>11}{:>13}\n", "model",
                     "ranks", "tokens", "weights", "tokens", "routing", "layer", "overlapped", "exchange",
                     "experts", "rows", "experts of");
  out << fmt::format("{:<14}{:>6}{:>8}{:>9}{:>8}{:>9}{:>8}{:>13}{:>11}{:>10}{:>11}{:>13}\n", "", "", "each",
                     "", "in", "", "us", "us@SMs", "alone us", "alone us", "most", "roofline");
}

void print(const gemm_run& run, const moe_point& p, std::ostream& out) {
  const std::string point =
      fmt::format("{:<14}{:>6}{:>8}{:>9}{:>8}{:>9}", p.model.name, p.ranks, p.config.num_max_tokens_per_rank,
                  name(p.weights), name(p.config.format), name(p.given.routing));
  if (!p.wrong.empty()) {
    out << fmt::format("{}  WRONG: {}\n", point, p.wrong);
    return;
  }
  const moe_point::of_micro_batches* const halves = p.quickest_overlapped();
  const std::string overlapped =
      halves == nullptr ? "-" : fmt::format("{:.1f}@{}", halves->layer.median_us(), halves->exchange_sms);
  out << fmt::format("{}{:>8.1f}{:>13}{:>11.1f}{:>10.1f}{:>11.0f}{:>13}\n", point, p.layer.median_us(),
                     overlapped, p.exchange.median_us(), p.experts.median_us(), p.rows,
                     percent_of(p.least_experts_us(run), p.experts.median_us()));
}

}  // namespace baton::cli
