#pragma once
// Command lines of the program on the small model.
#include "tests/cpu/tiny_moe.hpp"
#include "tests/support/child_program.hpp"

namespace baton::test {

using words = std::vector<std::string>;

inline const std::string model_folder = tiny_moe_folder().string();
inline const std::string greedy_file = (tiny_moe_folder() / "greedy.json").string();

/// `more` after the words of a command.
inline words operator+(words command, const words& more) {
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

inline const words generate{"generate", "--model", model_folder, "--device", "cpu"};

inline words moe(const std::string& input, const std::string& output, const words& more = {}) {
  return words{"moe", "--model", model_folder, "--layer",  "1",   "--device",
               "cpu", "--input", input,        "--output", output} +
         more;
}

}  // namespace baton::test
