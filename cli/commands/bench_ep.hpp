#pragma once
// `baton bench ep`: how long the exchange takes, and how close it comes to what the links and NCCL do.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "baton/expert_parallel.hpp"
#include "cli/bench/ep_session.hpp"

namespace baton::cli {

struct bench_ep_options {
  int ranks = 4;
  std::vector<int> tokens;  // for each rank; empty: 1, 8, 32, 128, 512, 4096 on CUDA, 16 on the CPU
  std::vector<int> hidden{7168};
  std::vector<int> top_k{8};
  std::vector<int> experts{256};
  std::vector<ep_routing> routings{ep_routing::uniform};
  std::filesystem::path trace;   // of routing trace: as read_recorded_routing has it
  std::vector<int> replicas{0};  // physical experts beyond the others
  std::vector<token_format> formats{token_format::bf16, token_format::blockwise_fp8};
  token_format combine_format = token_format::bf16;
  std::vector<ep_layout> layouts{ep_layout::per_expert, ep_layout::per_rank};
  ep_transfer transfer = ep_transfer::automatic;
  ep_rows rows = ep_rows::by_expert;
  std::optional<device_kind> device;  // empty: CUDA if it can serve these ranks, else the CPU
  int repeats = 20;
  int rounds = 0;  // timed together; 0: 1 on the CPU, and otherwise 40, fewer where they take long
  std::vector<int> num_sms{0};  // see ep_config
  int num_threads = 0;          // see ep_config
  ep_forms forms;
  std::uint64_t seed = 1;
  bool json = false;      // `out` gets JSON, one object a line, and no table
  std::string json_path;  // if not empty, this file gets the JSON as well
};

/// Measures every combination of sizes, routings, replicas, formats, layouts and num_sms and prints as it goes; says which of
/// them their layout or routing does not serve. Returns an exit_code: check_failed if a combined token was wrong (such a point
/// has no times).
/// @throws baton::error  what creation and the kernels throw; bad_file for the trace; invalid_argument for repeats below 1
int run_bench_ep(const bench_ep_options& options, std::ostream& out);

}  // namespace baton::cli
