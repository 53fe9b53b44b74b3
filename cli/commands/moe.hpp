#pragma once
#include <filesystem>
#include <ostream>

#include "cli/exchange_settings.hpp"

namespace baton::cli {

struct moe_options {
  std::filesystem::path model;
  int layer = 0;
  std::filesystem::path input;
  std::filesystem::path output;
  exchange_settings exchange;
  bool json = false;
};

/// One MoE layer of a checkpoint, router included, on `hidden_states` of the input file; the tokens are spread over
/// the ranks in contiguous blocks. Returns exit_code::check_failed if the input has `moe_output` and the result is
/// further from it than rounding explains.
int run_moe(const moe_options& options, std::ostream& out);

}  // namespace baton::cli
