#include "cli/commands/forecast_arguments.hpp"

#include <map>
#include <string>

#include "cli/commands/argument_kinds.hpp"
#include "cli/commands/exchange_arguments.hpp"

namespace baton::cli {
namespace {

const std::map<std::string, ep_routing> drawn_routings{
    {name(ep_routing::uniform), ep_routing::uniform},
    {name(ep_routing::zipf), ep_routing::zipf},
    {name(ep_routing::all_to_one), ep_routing::all_to_one}};

void declare_forecast_sizes(CLI::App& command, forecast_options& o) {
  const auto listed = [&command](const char* flag, std::vector<int>& values, const char* usual,
                                 const char* text) {
    add_counts(command, flag, values, usual, text)->group("Sizes");
  };
  listed("--ranks", o.ranks, "8 64 256 1024", "ranks, up to 1024");
  listed("--group-size", o.group_sizes, "8",
         "ranks that reach each other with stores; 0, or more than there are: all");
  listed("--tokens", o.tokens, "128", "tokens of each rank");
  listed("--hidden", o.hidden, "7168", "values in a token");
  add_count(command, "--top-k", o.top_k, "experts of a token")->group("Sizes");
  command.add_option("--experts", o.experts, "experts of all ranks")
      ->type_name("N")
      ->default_str("256, or one a rank if that is more")
      ->group("Sizes");
}

void declare_forecast_exchange(CLI::App& command, forecast_options& o) {
  add_choices(command, "--levels", level_names, o.levels,
              "how a token comes to other groups; one: put to each rank; two: put once, and forwarded there")
      ->default_str("one two")
      ->group("Exchange");
  add_choices(command, "--layout", layout_names, o.layouts,
              "a message for each token and expert, or for each token and rank")
      ->default_str("per_rank")
      ->group("Exchange");
  add_choice<token_format>(
      command, "--format", format_names, [&o](token_format format) { o.format = format; },
      "how tokens travel")
      ->default_str("bf16")
      ->group("Exchange");
  declare_combine_format(command, o.combine_format)->group("Exchange");
  declare_travel(command, o);
  add_choices(
      command, "--routing", drawn_routings, o.routings,
      "which experts tokens choose; zipf: the n-th most popular one in proportion to 1/n; all-to-one: only "
      "those of rank 0")
      ->default_str("uniform")
      ->group("Exchange");
  add_seed(command, o.seed, "of what tokens choose")->group("Exchange");
}

void declare_forecast_links(CLI::App& command, forecast::link_facts& l) {
  const auto fact = [&command](const char* flag, auto& value, const char* text) {
    add_count(command, flag, value, text)->group("Links and network cards");
  };
  fact("--link-gb-per-s", l.near_gb_per_s, "of a GPU to its group, each way; measured: H200");
  fact("--link-us", l.near_us, "on the way within a group; measured: H200");
  fact("--nic-gb-per-s", l.nic_gb_per_s, "of a network card, each way; 50: 400 Gb/s");
  fact("--nic-us", l.nic_us, "on the way between groups; assumed");
  fact("--nic-messages-per-us", l.nic_messages_per_us, "puts that a card begins; assumed");
  fact("--nic-overhead-bytes", l.nic_overhead_bytes, "that a put adds; assumed");
  fact("--ranks-per-nic", l.ranks_per_nic, "ranks of a group that share a network card");
  command
      .add_flag("--one-host", l.one_host,
                "groups are of one host: what is put passes GPUs' links, and there are no cards")
      ->group("Links and network cards");
}

}  // namespace

void declare_forecast(CLI::App& app, arguments& chosen) {
  forecast_options& o = chosen.forecast;
  CLI::App& command = *app.add_subcommand(
      "forecast", "what a round of the exchange costs on up to 1024 ranks that are not there");
  declare_forecast_sizes(command, o);
  declare_forecast_exchange(command, o);
  declare_forecast_links(command, o.links);
  add_path(command, "--measured", o.measured,
           "what baton bench ep or baton bench groups wrote with --json-file: forecasts its rounds, and says "
           "how far "
           "they are off; of the options above only links count")
      ->type_name("FILE")
      ->group("Output");
  declare_json(command, o.json, chosen.is_json);
  command.add_option("--json-file", o.json_path, "gets the JSON as well, when all is forecast")
      ->type_name("FILE")
      ->group("Output");
  command.footer(
      "A model of messages: which there are, and how many bytes they have, says the exchange's own code; "
      "links and "
      "network cards take one at a time; what kernels take beside was measured on 2 and 4 GPUs of one host. "
      "No rank runs. "
      "What a network does between cards is not in it.\n"
      "Examples:\n"
      "  baton forecast --ranks 16 64 256 1024 --tokens 128 4096\n"
      "  baton forecast --ranks 64 --routing uniform zipf --nic-gb-per-s 25\n"
      "  baton forecast --measured ep.jsonl\n"
      "  baton forecast --measured groups.jsonl --one-host");
  command.callback([&] { chosen.command = [&](std::ostream& out) { return run_forecast(o, out); }; });
}

}  // namespace baton::cli
