#pragma once
#include <CLI/CLI.hpp>

#include "cli/commands/arguments.hpp"

namespace baton::cli {

/// `baton bench attention`.
void declare_bench_attention(CLI::App& bench, arguments& chosen);

}  // namespace baton::cli
