#include "cli/commands/moe.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <limits>

#include "base/math.hpp"
#include "cli/commands/moe_report.hpp"
#include "cli/exit_code.hpp"
#include "cli/model/router.hpp"
#include "cli/model/safetensors.hpp"
#include "cli/view/terminal.hpp"

namespace baton::cli {
namespace {

layer_input read_input(const std::filesystem::path& path, int hidden) {
  const model::safetensors_file file = model::safetensors_file::open(path);
  const model::tensor_view& states = file.at(states_name, {-1, hidden});
  if (states.shape[0] > std::numeric_limits<int>::max())
    throw bad_file{fmt::format("{}: {}: expected at most {} tokens, found {}", path.string(), states_name,
                               std::numeric_limits<int>::max(), states.shape[0])};
  layer_input input;
  input.tokens = static_cast<int>(states.shape[0]);
  input.hidden = model::to_bfloat16(states);
  for (std::size_t i = 0; i < input.hidden.size(); ++i) {
    const auto value = static_cast<float>(input.hidden[i]);
    if (std::isfinite(value)) continue;
    throw bad_file{fmt::format("{}: {}[{}, {}] is {}, expected finite values that bf16 can hold",
                               path.string(), states_name, i / static_cast<std::size_t>(hidden),
                               i % static_cast<std::size_t>(hidden), value)};
  }
  if (file.has(expected_name)) {
    input.expected = model::to_float(file.at(expected_name, {states.shape[0], hidden}));
  }
  return input;
}

/// Rank r gets tokens [r * n / ranks, (r + 1) * n / ranks).
std::vector<model::routed_tokens> split(const model::routed_tokens& all, int num_ranks, int hidden,
                                        int top_k) {
  std::vector<model::routed_tokens> ranks;
  for (int r = 0; r < num_ranks; ++r) {
    const auto begin = std::int64_t{all.tokens} * r / num_ranks,
               end = std::int64_t{all.tokens} * (r + 1) / num_ranks;
    const auto part = [&](const auto& values, int width) {
      return std::vector(values.begin() + begin * width, values.begin() + end * width);
    };
    ranks.push_back({static_cast<int>(end - begin), part(all.hidden, hidden), part(all.topk_idx, top_k),
                     part(all.topk_weights, top_k)});
  }
  return ranks;
}

void write_output(const layer_run& run, model::output_file& file) {
  const std::int64_t hidden = run.weights.config().hidden_size;
  const model::tensor_to_write tensor{
      states_name, model::dtype::f32, {run.input.tokens, hidden}, std::as_bytes(std::span{run.output})};
  model::write_safetensors(file, {&tensor, 1});
}

void compute(layer_run& run, const model::routed_tokens& routed) {
  const model::model_config& config = run.weights.config();
  const int num_ranks = run.options.exchange.num_ranks;
  const auto ranks = split(routed, num_ranks, config.hidden_size, config.num_experts_per_tok);
  for (const model::routed_tokens& rank : ranks) run.tokens_of_ranks.push_back(rank.tokens);
  std::vector<std::vector<float>> outputs(ranks.size());
  const auto start = std::chrono::steady_clock::now();
  run.exchange.experts->run(run.options.layer, ranks, outputs);
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  for (const std::vector<float>& part : outputs)
    run.output.insert(run.output.end(), part.begin(), part.end());
}

/// With ids of physical experts.
model::routed_tokens as_sent(const exchange_moe& exchange, int layer, model::routed_tokens routed,
                             std::span<const int> tokens_of_ranks) {
  const auto top_k = static_cast<std::size_t>(exchange.config().top_k);
  std::vector<std::int32_t> ids;
  for (std::size_t r = 0; r < tokens_of_ranks.size(); ++r) {
    const auto own = std::span<const std::int32_t>{routed.topk_idx}.subspan(
        ids.size(), static_cast<std::size_t>(tokens_of_ranks[r]) * top_k);
    const auto physical = exchange.physical(layer, static_cast<int>(r), own);
    ids.insert(ids.end(), physical.begin(), physical.end());
  }
  routed.topk_idx = std::move(ids);
  return routed;
}

layer_error error_of(const layer_run& run, const model::routed_tokens& routed) {
  const model::model_config& config = run.weights.config();
  const exchange_moe& exchange = *run.exchange.experts;
  const auto bounds = [&] {
    const int layer = run.options.layer;
    const expert_placement* const placement = exchange.placement(layer);
    const expert_source source = [&run](int l, int first, int count) {
      return run.weights.experts(l, first, count);
    };
    const model::expert_matrices experts = placement == nullptr
                                               ? source(layer, 0, config.num_experts)
                                               : gathered(source, layer, placement->physical_to_logical);
    const model::moe_rounding rounding =
        rounding_of(exchange.config(), exchange.rank(0).device(), run.tokens_of_ranks, experts.format);
    return moe_error_bound(
        experts, placement == nullptr ? routed : as_sent(exchange, layer, routed, run.tokens_of_ranks),
        rounding);
  };
  return cli::measure(bounds(), *run.input.expected, run.output, config.hidden_size);
}

}  // namespace

int run_moe(const moe_options& options, std::ostream& out) {
  check_settings(options.exchange);
  model::output_file output{options.output, "--output"};  // what is wrong with it shows before the work
  progress_line progress;
  progress.show("opening the model");
  const model::checkpoint weights = model::checkpoint::open(options.model);
  const model::model_config& config = weights.config();
  if (options.layer < 0 || options.layer >= config.num_hidden_layers) {
    throw invalid_argument{
        fmt::format("--layer {}: the model has layers 0 to {}", options.layer, config.num_hidden_layers - 1)};
  }
  layer_run run{options, weights};
  run.input = read_input(options.input, config.hidden_size);
  const int most_tokens = ceil_div(run.input.tokens, options.exchange.num_ranks);
  run.exchange = load_exchange(weights, {{options.layer}}, options.exchange, most_tokens);
  progress.show(fmt::format("{} tokens", run.input.tokens));
  const model::routed_tokens routed = weights.layer_router(options.layer).route(run.input.hidden);
  compute(run, routed);
  write_output(run, output);
  if (run.input.expected) {
    progress.show("the same in double precision");
    run.error = error_of(run, routed);
  }
  progress.clear();
  if (options.json) {
    out << layer_json(run).dump(2) << '\n';
  } else {
    print_layer(run, out);
  }
  return static_cast<int>(!run.error || run.error->is_within_bound() ? exit_code::ok
                                                                     : exit_code::check_failed);
}

}  // namespace baton::cli
