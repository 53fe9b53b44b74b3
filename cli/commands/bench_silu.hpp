#pragma once
// `baton bench silu`: how fast the activation between an expert's two products is written in each format.
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "baton/token_format.hpp"
#include "baton/world.hpp"

namespace baton::cli {

struct bench_silu_options {
  std::vector<token_format> formats{token_format::bf16, token_format::blockwise_fp8, token_format::mxfp8,
                                    token_format::mxfp4, token_format::nvfp4};
  std::vector<int> rows;              // empty: 1024 and 16384 on CUDA, 64 on the CPU
  int columns = 2048;                 // an expert's intermediate values
  std::optional<device_kind> device;  // empty: CUDA if there is one, else the CPU
  int repeats = 20;
  bool json = false;      // `out` gets JSON, one object a line, and no table
  std::string json_path;  // if not empty, this file gets the JSON as well
};

/// Measures fused_silu for all rows and formats, each checked first, and beside each a copy that moves as many bytes: the most
/// that memory allows. Prints as it goes. Returns an exit_code: check_failed if a result was wrong (it has no times then).
/// @throws baton::error  what the kernels throw; invalid_argument for a number out of range
int run_bench_silu(const bench_silu_options& options, std::ostream& out);

}  // namespace baton::cli
