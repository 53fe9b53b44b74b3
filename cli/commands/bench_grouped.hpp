#pragma once
// `baton bench gemm --grouped`: how fast groups of rows are multiplied, each by a matrix of its own, beside what the GPU does
// at most.
#include <ostream>

#include "cli/commands/bench_gemm.hpp"

namespace baton::cli {

/// Checks every point, then times it in bursts and, on CUDA, without a pause. The options of `options` that are not about dense
/// products hold; its shapes are "N,K". Returns an exit_code: check_failed if a product was wrong (it has no times then).
/// @throws baton::error  what grouped_gemm throws; invalid_argument for what is no shape, or a number out of range
int run_bench_grouped(const bench_gemm_options& options, std::ostream& out);

}  // namespace baton::cli
