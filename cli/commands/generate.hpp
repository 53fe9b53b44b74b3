#pragma once
#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "cli/exchange_settings.hpp"

namespace baton::cli {

enum class backend_choice { exchange, reference };
enum class attention_choice { automatic, host, library };

struct generate_options {
  std::filesystem::path model;
  std::vector<std::string> prompts;
  std::filesystem::path prompts_file;  // empty: none
  std::filesystem::path expect;        // empty: none
  int max_new = 0;                     // 0: the expected continuation's length, or 64
  backend_choice backend = backend_choice::exchange;
  attention_choice attention = attention_choice::automatic;  // the library on GPUs, where it has a kernel
  exchange_settings exchange;
  bool json = false;
};

/// Continues prompts greedily, with every MoE layer expert-parallel over the ranks.
/// Returns exit_code::check_failed if a text is not the expected one.
int run_generate(const generate_options& options, std::ostream& out);

}  // namespace baton::cli
