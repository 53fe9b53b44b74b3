#include "cli/commands/exchange_arguments.hpp"

namespace baton::cli {
namespace {

const std::map<std::string, arrival_policy> arrival_names{{"epoch", arrival_policy::epoch},
                                                          {"sentinel", arrival_policy::sentinel}};

}  // namespace

const std::map<std::string, token_format> format_names{{"bf16", token_format::bf16},
                                                       {"fp8", token_format::blockwise_fp8},
                                                       {"mxfp8", token_format::mxfp8},
                                                       {"mxfp4", token_format::mxfp4},
                                                       {"nvfp4", token_format::nvfp4}};
const std::map<std::string, ep_layout> layout_names{{"per_expert", ep_layout::per_expert},
                                                    {"per_rank", ep_layout::per_rank}};
const std::map<std::string, ep_transfer> transfer_names{{"auto", ep_transfer::automatic},
                                                        {"lines", ep_transfer::lines},
                                                        {"chunks", ep_transfer::chunks},
                                                        {"flags", ep_transfer::flags}};
const std::map<std::string, ep_levels> level_names{{"one", ep_levels::one}, {"two", ep_levels::two}};
const std::map<std::string, ep_rows> rows_names{{"expert", ep_rows::by_expert}, {"token", ep_rows::by_token}};
const std::map<std::string, ep_routing> routing_names{{name(ep_routing::uniform), ep_routing::uniform},
                                                      {name(ep_routing::zipf), ep_routing::zipf},
                                                      {name(ep_routing::trace), ep_routing::trace},
                                                      {name(ep_routing::all_to_one), ep_routing::all_to_one}};

CLI::Option* declare_combine_format(CLI::App& command, token_format& format) {
  static const std::map<std::string, token_format> names{{"bf16", token_format::bf16},
                                                         {"fp8", token_format::blockwise_fp8}};
  return add_choice<token_format>(
             command, "--combine-format", names, [&format](token_format chosen) { format = chosen; },
             "how other ranks' sums of layout per_rank travel back")
      ->default_str("bf16");
}

void declare_exchange(CLI::App& command, exchange_settings& settings) {
  command.add_option("--ranks", settings.num_ranks, "ranks that the experts are spread over")
      ->type_name("N")
      ->capture_default_str()
      ->group("Exchange");
  declare_device(command, [&settings](device_choice device) { settings.device = device; });
  add_choice<token_format>(
      command, "--format", format_names, [&settings](token_format format) { settings.format = format; },
      "how tokens travel; fp8: e4m3 with a scale for each 128 values")
      ->default_str("bf16")
      ->group("Exchange");
  declare_combine_format(command, settings.combine_format)->group("Exchange");
  add_choice<arrival_policy>(
      command, "--arrival", arrival_names,
      [&settings](arrival_policy arrival) { settings.arrival = arrival; },
      "how arrival words of layout per_expert tell rounds apart")
      ->default_str("epoch")
      ->group("Exchange");
  add_choice<ep_layout>(
      command, "--layout", layout_names, [&settings](ep_layout layout) { settings.layout = layout; },
      "a message for each token and expert, or for each token and rank")
      ->default_str("per_rank")
      ->group("Exchange");
  declare_travel(command, settings);
  add_count(command, "--replicas", settings.num_replicas, "further copies of busy experts")
      ->group("Exchange");
  add_path(
      command, "--trace", settings.trace,
      "recorded routing (layers.L.topk_ids, layers.L.topk_weights), by which replicas are placed; without, "
      "all experts count as equally busy")
      ->type_name("FILE")
      ->group("Exchange");
  command
      .add_option("--max-tokens-per-rank", settings.max_tokens_per_rank,
                  "tokens that a rank sends in a round; sizes the buffers")
      ->type_name("N")
      ->capture_default_str()
      ->group("Exchange");
}

}  // namespace baton::cli
