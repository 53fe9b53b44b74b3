#pragma once
// `baton bench attention --decode`: how fast few rows a sequence read their keys.
#include <ostream>

#include "cli/commands/bench_attention.hpp"

namespace baton::cli {

/// As run_bench_attention, of `heads`; beside the bandwidth of a copy in the same run.
int run_bench_decode(const bench_attention_options& options, const world& where,
                     const std::vector<attention_heads>& heads, std::ostream& out);

}  // namespace baton::cli
