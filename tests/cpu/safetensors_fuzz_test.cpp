#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

#include "tests/fuzz/read_any_bytes.hpp"

namespace {

using namespace baton;
using baton::test::read_any_bytes;
using baton::test::verdict;
using generator = std::mt19937_64;

using file_bytes = std::vector<std::uint8_t>;

file_bytes framed(const std::string& header, std::size_t data_bytes) {
  file_bytes file;
  for (int i = 0; i < 8; ++i) file.push_back(static_cast<std::uint8_t>(header.size() >> (8 * i)));
  file.insert(file.end(), header.begin(), header.end());
  file.resize(file.size() + data_bytes, 0x3f);
  return file;
}

const std::string good_header =
    R"({"__metadata__":{"format":"pt"},"weight":{"dtype":"BF16","shape":[4,8],"data_offsets":[0,64]},)"
    R"("bias":{"dtype":"F32","shape":[8],"data_offsets":[64,96]},"ids":{"dtype":"U8","shape":[2,2],"data_offsets":[96,100]},)"
    R"("none":{"dtype":"F16","shape":[0,7],"data_offsets":[100,100]}})";
constexpr std::size_t good_data = 100;

std::size_t below(generator& random, std::size_t n) {
  return static_cast<std::size_t>(random() % n);
}

/// Words that mean something in a header, put in place of a piece of it.
void splice(std::string& header, generator& random) {
  static const std::vector<std::string> words{"BF16",
                                              "F64",
                                              "BOOL",
                                              "X",
                                              "[",
                                              "]",
                                              "{",
                                              "}",
                                              ",",
                                              ":",
                                              "\"",
                                              "null",
                                              "true",
                                              "-1",
                                              "0",
                                              "1.5",
                                              "1e3",
                                              "8",
                                              "4294967296",
                                              "18446744073709551615",
                                              "[]",
                                              "{}",
                                              "[0,0]",
                                              "\\u0000",
                                              "\xff",
                                              "weight",
                                              "dtype",
                                              "shape",
                                              "data_offsets",
                                              "__metadata__"};
  const std::size_t at = below(random, header.size());
  header.replace(at, below(random, 12), words[below(random, words.size())]);
}

/// A digit for a digit: sizes that lie.
void change_digit(std::string& header, generator& random) {
  const std::size_t from = below(random, header.size());
  const std::size_t at = header.find_first_of("0123456789", from);
  if (at != std::string::npos) header[at] = static_cast<char>('0' + below(random, 10));
}

file_bytes mutate(generator& random) {
  std::string header = good_header;
  const std::size_t edits = below(random, 3);
  for (std::size_t i = 0; i < edits; ++i)
    random() % 2 ? splice(header, random) : change_digit(header, random);
  file_bytes file = framed(header, random() % 8 ? good_data : below(random, 200));
  const std::size_t flips = random() % 2 ? 0 : below(random, 4);
  for (std::size_t i = 0; i < flips; ++i) {
    file[below(random, file.size())] ^= static_cast<std::uint8_t>(1u << below(random, 8));
  }
  if (random() % 8 == 0) file.resize(below(random, file.size()));
  if (random() % 16 == 0) file[below(random, 8)] = static_cast<std::uint8_t>(random());
  return file;
}

TEST(safetensors_fuzz, thirty_thousand_damaged_files_are_read_right_or_refused) {
  generator random{20261121};
  int accepted = 0, refused = 0;
  for (int i = 0; i < 30000; ++i)
    (read_any_bytes(mutate(random)) == verdict::accepted ? accepted : refused) += 1;
  // Both happen often, or the mutations would be too tame or too wild to test anything.
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(refused, 10000);
}

TEST(safetensors_fuzz, every_single_flipped_bit_of_a_file_is_read_right_or_refused) {
  file_bytes file = framed(good_header, good_data);
  ASSERT_EQ(read_any_bytes(file), verdict::accepted);
  for (std::size_t bit = 0; bit < 8 * (file.size() - good_data); ++bit) {
    file[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
    read_any_bytes(file);
    file[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
  }
}

TEST(safetensors_fuzz, a_reader_that_believed_the_header_would_be_caught) {
  using model::dtype;
  const auto promises = [&](model::tensor_shape shape, std::uint64_t begin, std::uint64_t size) {
    return test::broken_promise(64, {{"a", {"a", dtype::f32, std::move(shape), nullptr, begin, size}}})
        .empty();
  };
  EXPECT_TRUE(promises({4}, 48, 16));
  EXPECT_FALSE(promises({4}, 52, 16)) << "past the end";
  EXPECT_FALSE(promises({5}, 0, 16)) << "a shape of more bytes";
  EXPECT_FALSE(promises({1LL << 32, 1LL << 32}, 0, 0)) << "a size that wraps to zero";
}

}  // namespace
