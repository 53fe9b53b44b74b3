#pragma once
// What of an exchange several commands let choose.
#include <CLI/CLI.hpp>
#include <map>
#include <string>

#include "baton/expert_parallel.hpp"
#include "cli/bench/ep_routing.hpp"
#include "cli/commands/argument_kinds.hpp"
#include "cli/exchange_settings.hpp"

namespace baton::cli {

extern const std::map<std::string, token_format> format_names;
extern const std::map<std::string, ep_layout> layout_names;
extern const std::map<std::string, ep_transfer> transfer_names;
extern const std::map<std::string, ep_levels> level_names;
extern const std::map<std::string, ep_rows> rows_names;
extern const std::map<std::string, ep_routing> routing_names;

/// How tokens travel, and how they lie when they are there.
template <class Settings>
void declare_travel(CLI::App& command, Settings& settings) {
  add_choice<ep_transfer>(
      command, "--transfer", transfer_names, [&settings](ep_transfer how) { settings.transfer = how; },
      "how tokens of layout per_rank travel: lines for few, chunks for many; flags for few where lines tear")
      ->default_str("auto")
      ->group("Exchange");
  add_choice<ep_rows>(
      command, "--rows", rows_names, [&settings](ep_rows how) { settings.rows = how; },
      "how received tokens lie: once for each of their experts, or once (layout per_rank)")
      ->default_str("expert")
      ->group("Exchange");
}

/// In which format sums travel back: of those that there are, those that serve.
CLI::Option* declare_combine_format(CLI::App& command, token_format& format);

/// All that generate and moe have.
void declare_exchange(CLI::App& command, exchange_settings& settings);

}  // namespace baton::cli
