#pragma once
// `baton bench ep`: how long the exchange takes, and how close it comes to what the links and NCCL do.
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "baton/expert_parallel.hpp"

namespace baton::cli {

struct bench_ep_options {
  int ranks = 4;
  std::vector<int> tokens;  // for each rank; empty: 128 and 4096 on CUDA, 16 on the CPU
  int hidden = 7168;
  int top_k = 8;
  int experts = 256;
  std::vector<token_format> formats{token_format::bf16, token_format::blockwise_fp8};
  std::optional<device_kind> device;  // empty: CUDA if it can serve these ranks, else the CPU
  int repeats = 20;
  std::vector<int> num_sms{0};  // see ep_config
  int num_threads = 0;          // see ep_config
  std::uint64_t seed = 1;
  bool json = false;      // `out` gets JSON, one object a line, and no table
  std::string json_path;  // if not empty, this file gets the JSON as well
};

/// Measures every combination of tokens, formats and num_sms and prints as it goes. Returns an exit_code:
/// check_failed if a combined token was wrong (such a point has no times).
/// @throws baton::error  what creation and the kernels throw; invalid_argument for repeats below 1
int run_bench_ep(const bench_ep_options& options, std::ostream& out);

}  // namespace baton::cli
