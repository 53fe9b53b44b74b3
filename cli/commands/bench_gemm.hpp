#pragma once
// `baton bench gemm`: how fast the matrix product is, beside cuBLAS and beside what the GPU does at most; with --grouped, how
// fast groups of rows are multiplied.
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "baton/gemm.hpp"
#include "cli/bench/grouped_points.hpp"

namespace baton::cli {

struct bench_grouped_options {
  bool wanted = false;
  std::vector<std::string> models;  // names of moe_models; empty, and no shapes: all on CUDA
  int groups = 64;                  // of the shapes that are no model's
  std::vector<int> rows;            // of a group on average; empty: some for the device
  std::vector<group_routing> routings{group_routing::uniform};
  std::uint64_t seed = 1;  // of the routings
};

struct bench_gemm_options {
  bench_grouped_options grouped;  // not wanted: dense products
  std::vector<std::string>
      shapes;  // "M,N,K", or "N" for m = n = k; grouped: "N,K"; empty: a list for the device
  std::vector<operand_format> formats{operand_format::bf16};
  std::vector<std::string>
      out;  // "bf16", "fp16", "fp32", as each format has; empty: that of the operands, of e4m3 bf16
  std::vector<gemm_tiles> tiles{gemm_tiles::automatic};
  std::vector<int> splits{0};  // blocks that share out k; 0: as is quickest
  std::vector<gemm_b_layout> b_layouts{gemm_b_layout::n_by_k};
  int repeats = 5;                    // bursts of each
  int sustained_ms = 500;             // 0: bursts alone
  int num_sms = 0;                    // for ours; 0: all
  std::optional<device_kind> device;  // empty: CUDA if there is one, else the CPU
  bool json = false;                  // `out` gets JSON, one object a line, and no table
  std::string json_path;              // if not empty, this file gets the JSON as well
};

/// Checks every product, then times it in bursts and, on CUDA, without a pause; cuBLAS, or of e4m3 cuBLASLt, beside it where it
/// can be loaded. On CUDA the rates of tensor cores alone and of a copy are measured first. Returns an exit_code: check_failed
/// if a product was wrong (it has no times then).
/// @throws baton::error  what the kernels throw; invalid_argument for what is no shape, or a number out of range
int run_bench_gemm(const bench_gemm_options& options, std::ostream& out);

}  // namespace baton::cli
