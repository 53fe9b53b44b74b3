#include "cli/commands/bench_moe_arguments.hpp"

#include <map>
#include <string>

#include "cli/bench/grouped_points.hpp"
#include "cli/commands/exchange_arguments.hpp"

namespace baton::cli {
namespace {

const std::map<std::string, weight_format> weight_names{
    {name(weight_format::bf16), weight_format::bf16},
    {name(weight_format::block_fp8), weight_format::block_fp8}};
const std::map<std::string, ep_routing> layer_routing_names{
    {name(ep_routing::uniform), ep_routing::uniform},
    {name(ep_routing::zipf), ep_routing::zipf},
    {name(ep_routing::all_to_one), ep_routing::all_to_one}};

void declare_layer_points(CLI::App& command, bench_moe_options& options) {
  const auto of_points = [](CLI::Option* option) { option->group("Points"); };
  of_points(add_count(command, "--ranks", options.ranks, "ranks"));
  of_points(command.add_option("--models", options.models, "whose layers: " + model_names())
                ->type_name("NAME ...")
                ->default_str("deepseek-v3 on CUDA, a small one on the CPU"));
  of_points(add_counts(command, "--tokens", options.tokens, "1 32 128 512 4096 on CUDA, 16 on the CPU",
                       "tokens of each rank"));
  of_points(add_choices(command, "--weights", weight_names, options.weights,
                        "of the experts; fp8: blocks of 128x128")
                ->default_str("bf16 fp8"));
  of_points(add_choices(command, "--format", format_names, options.formats, "how tokens travel")
                ->default_str("fp8"));
  of_points(
      add_choices(command, "--routing", layer_routing_names, options.routings, "which experts tokens choose")
          ->default_str("uniform"));
}

void declare_layer_exchange(CLI::App& command, bench_moe_options& options) {
  const auto of_exchange = [](CLI::Option* option) { option->group("Exchange"); };
  of_exchange(add_choice<ep_layout>(
                  command, "--layout", layout_names, [&](ep_layout layout) { options.layout = layout; },
                  "a message for each token and expert, or for each token and rank")
                  ->default_str("per_rank"));
  of_exchange(add_choice<ep_transfer>(
                  command, "--transfer", transfer_names, [&](ep_transfer how) { options.transfer = how; },
                  "how tokens of layout per_rank travel: lines for few, chunks for many")
                  ->default_str("auto"));
  of_exchange(add_choice<ep_rows>(
                  command, "--rows", rows_names, [&](ep_rows how) { options.rows = how; },
                  "how received tokens lie: once for each of their experts, or once (layout per_rank)")
                  ->default_str("token"));
  of_exchange(
      command
          .add_option(
              "--micro-batches", options.micro_batches,
              "2: layers of two halves of the tokens as well, of which one travels while experts work on "
              "the other")
          ->type_name("N")
          ->default_str("1"));
  of_exchange(add_counts(command, "--exchange-sms", options.exchange_sms, "24",
                         "SMs that such layers' exchange has; the experts have the others"));
}

}  // namespace

void declare_bench_moe(CLI::App& bench, arguments& chosen) {
  bench_moe_options& options = chosen.bench_moe;
  CLI::App& command =
      *bench.add_subcommand("moe", "a layer of experts: exchange and products, together and alone");
  declare_layer_points(command, options);
  declare_layer_exchange(command, options);
  declare_device_or_none(command, options.device);
  add_count(command, "--repeats", options.repeats, "samples of each time")->group("Measuring");
  command.add_option("--rounds", options.rounds, "layers timed together for a sample")
      ->type_name("N")
      ->default_str("2 to 20 on CUDA, 1 on the CPU")
      ->group("Measuring");
  add_seed(command, options.seed, "of tokens and routing")->group("Measuring");
  declare_json(command, options.json, chosen.is_json);
  declare_json_file(command, options.json_path);
  command.footer(
      "A token of each rank is checked against its error bound before a layer is timed. On CUDA layers are "
      "replayed from graphs, behind each other on every rank; the slowest rank's median counts.\n"
      "Example:\n"
      "  baton bench moe --ranks 2 --models deepseek-v3 --tokens 128 4096 --weights fp8 --json-file "
      "moe.jsonl");
  command.callback([&] { chosen.command = [&](std::ostream& out) { return run_bench_moe(options, out); }; });
}

}  // namespace baton::cli
