#pragma once
// `baton bench moe`: how long a layer of experts takes on all ranks, from a rank's tokens to their sums, and what of it is the
// exchange and what the experts.
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "baton/expert_parallel.hpp"
#include "baton/weight_format.hpp"
#include "cli/bench/ep_routing.hpp"

namespace baton::cli {

struct bench_moe_options {
  int ranks = 2;
  std::vector<std::string>
      models;               // names of moe_models; empty: deepseek-v3 on CUDA, and a small layer on the CPU
  std::vector<int> tokens;  // of each rank; empty: 1, 32, 128, 512, 4096 on CUDA, 16 on the CPU
  std::vector<weight_format> weights{weight_format::bf16, weight_format::block_fp8};
  std::vector<token_format> formats{token_format::blockwise_fp8};
  std::vector<ep_routing> routings{ep_routing::uniform};
  ep_layout layout = ep_layout::per_rank;
  ep_transfer transfer = ep_transfer::automatic;
  ep_rows rows = ep_rows::by_token;
  int micro_batches = 1;  // 2: layers of two halves that overlap, beside those of all tokens
  std::vector<int> exchange_sms{
      24};  // of a GPU, that these layers' exchange has; the experts have the others
  int repeats = 20;
  int rounds = 0;                     // timed together; 0: chosen
  std::optional<device_kind> device;  // empty: CUDA if it can serve these ranks, else the CPU
  std::uint64_t seed = 1;
  bool json = false;      // `out` gets JSON, one object a line, and no table
  std::string json_path;  // if not empty, this file gets the JSON as well
};

/// Measures every combination; a token of each rank is checked against its error bound before anything is timed. Returns an
/// exit_code: check_failed if one was outside.
/// @throws baton::error  what creation and the kernels throw; invalid_argument for what is out of range or not served
int run_bench_moe(const bench_moe_options& options, std::ostream& out);

}  // namespace baton::cli
