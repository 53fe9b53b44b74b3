#pragma once
// `baton bench attention`: how fast prefill is, beside what cuBLAS makes of a large product in the same run; or, of few rows a
// sequence, beside the bandwidth of a copy.
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "cli/bench/attention_points.hpp"

namespace baton::cli {

/// What keys in pages are of.
enum class cache_format { same, e4m3 };
constexpr const char* name(cache_format f) {
  return f == cache_format::e4m3 ? "e4m3" : "same";
}

struct bench_attention_options {
  std::vector<std::string>
      models;  // names of attention_layers; each layer with its window, or without a mask and causal
  std::vector<std::string>
      heads;  // "H,K,D": heads of q and of k and v, and values of each; empty, and no models: some
  std::vector<int> lengths;  // rows, and keys, of a sequence; empty: some for the device
  bool decode = false;       // lengths are of keys, in pages; each sequence has `rows` rows
  int rows = 1, page_size = 16;
  int batch = 1;
  std::vector<attention_mask> masks;  // empty: as the layers have them
  int window = 1024;                  // of a mask that is one, where the model does not say
  std::vector<operand_format> formats{operand_format::bf16};
  std::vector<cache_format> caches{cache_format::same};  // with `decode`
  int repeats = 3;                                       // bursts of each
  int sustained_ms = 500;                                // 0: bursts alone
  int num_sms = 0;                                       // 0: all
  std::optional<device_kind> device;                     // empty: CUDA if there is one, else the CPU
  bool json = false;                                     // `out` gets JSON, one object a line, and no table
  std::string json_path;                                 // if not empty, this file gets the JSON as well
};

/// Checks each attention against double precision, then times it in bursts of five calls after 0.4 s of rest and, on CUDA,
/// without a pause. cuBLAS is timed first in the same ways, where it can be loaded. Returns an exit_code: check_failed if one was
/// wrong (it has no times then). What no kernel does is told with the reason.
/// With `decode` it is no product of cuBLAS but a copy that is timed first, and each call has another cache than the one before.
/// @throws baton::error  what the kernels throw; invalid_argument for what is no number, model or list of heads
int run_bench_attention(const bench_attention_options& options, std::ostream& out);

}  // namespace baton::cli
