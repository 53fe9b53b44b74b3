// Names of files that lead nowhere, given by the user or by a checkpoint's index that nobody vouches for.
#include "cli/model/input_file.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "baton/error.hpp"
#include "cli/model/checkpoint.hpp"
#include "tests/cpu/says.hpp"
#include "tests/cpu/temporary_folder.hpp"
#include "tests/cpu/tiny_moe.hpp"

namespace baton::test {
namespace {

std::string refusal_of(const std::filesystem::path& model) {
  return message_of<bad_file>([&] { model::checkpoint::open(model); });
}

TEST(names_of_files, that_are_too_long_or_go_in_circles_are_bad_files_and_no_fault_of_the_program) {
  const temporary_folder folder;
  const std::string too_long(300, 'n');
  EXPECT_TRUE(says(refusal_of(folder / too_long), too_long + ": cannot be looked for: File name too long"));
  std::filesystem::copy(tiny_moe_folder() / "config.json", folder / "config.json");
  const auto index = folder / "model.safetensors.index.json";
  std::filesystem::create_symlink(index.filename(), index);
  EXPECT_TRUE(says(refusal_of(folder.path()), "index.json: cannot be looked for", "symbolic links"));
  std::filesystem::remove(index);
  write_file(index, R"({"weight_map": {"a": ")" + too_long + R"("}})");
  EXPECT_TRUE(says(refusal_of(folder.path()), "tensor a: expected the name of a file beside the index"));
}

TEST(names_of_files, and_tensors_of_any_length_do_not_fill_a_screen) {
  const temporary_folder folder;
  std::filesystem::copy(tiny_moe_folder() / "config.json", folder / "config.json");
  write_file(folder / "model.safetensors.index.json",
             R"({"weight_map": {")" + std::string(1 << 20, 't') + R"(": "none"}})");
  const std::string refusal = refusal_of(folder.path());
  EXPECT_TRUE(says(refusal, "none: expected this shard"));
  EXPECT_LT(refusal.size(), 700u);
}

}  // namespace
}  // namespace baton::test
