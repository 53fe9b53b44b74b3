#pragma once
#include <CLI/CLI.hpp>

#include "cli/commands/arguments.hpp"

namespace baton::cli {

/// `baton bench gemm`, dense and grouped.
void declare_bench_gemm(CLI::App& bench, arguments& chosen);

}  // namespace baton::cli
