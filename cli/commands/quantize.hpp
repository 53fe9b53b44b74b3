#pragma once
#include <filesystem>
#include <ostream>

namespace baton::cli {

struct quantize_options {
  std::filesystem::path model;
  std::filesystem::path output;
  bool json = false;
};

/// Writes the model with its experts in FP8, as model::quantise_checkpoint says, and tells what became of it.
int run_quantize(const quantize_options& options, std::ostream& out);

}  // namespace baton::cli
