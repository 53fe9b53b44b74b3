#pragma once
#include <CLI/CLI.hpp>

#include "cli/commands/arguments.hpp"

namespace baton::cli {

/// `baton bench` with its commands.
void declare_bench(CLI::App& app, arguments& chosen);

}  // namespace baton::cli
