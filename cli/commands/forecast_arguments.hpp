#pragma once
#include <CLI/CLI.hpp>

#include "cli/commands/arguments.hpp"

namespace baton::cli {

/// `baton forecast`, its options, and what runs it.
void declare_forecast(CLI::App& app, arguments& chosen);

}  // namespace baton::cli
