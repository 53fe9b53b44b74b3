#pragma once
#include <CLI/CLI.hpp>

#include "cli/commands/arguments.hpp"

namespace baton::cli {

/// `baton bench moe`.
void declare_bench_moe(CLI::App& bench, arguments& chosen);

}  // namespace baton::cli
