#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

#include "tests/fuzz/read_any_json.hpp"
#include "tests/fuzz/read_any_measurement.hpp"
#include "tests/fuzz/read_any_safetensors.hpp"

namespace {

using namespace baton;
using baton::test::read_any_safetensors;
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

/// Words that mean something in a file, put in place of a piece of it.
void splice(std::string& header, generator& random) {
  static const std::vector<std::string> words{"\"\":0,",
                                              std::string(1, '\0'),
                                              "[[[[[[[[[[[[",
                                              "1e999",
                                              "\\ud800",
                                              "BF16",
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
    (read_any_safetensors(mutate(random)) == verdict::accepted ? accepted : refused) += 1;
  // Both happen often, or the mutations would be too tame or too wild to test anything.
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(refused, 10000);
}

/// A piece again, many times: long lists, deep nesting, names twice.
void repeat(std::string& text, generator& random) {
  const std::size_t at = below(random, text.size()), length = 1 + below(random, 60);
  const std::string piece = text.substr(at, length);
  std::string more;
  for (std::size_t n = below(random, 20'000 / piece.size()); n > 0; --n) more += piece;
  text.insert(at, more);
}

std::string damaged(std::string text, generator& random) {
  for (std::size_t edits = below(random, 4); edits > 0 && !text.empty(); --edits) {
    switch (below(random, 8)) {
      case 0:
        repeat(text, random);
        break;
      case 1:
        text.resize(below(random, text.size()));
        break;
      case 2:
        text[below(random, text.size())] ^= static_cast<char>(1 << below(random, 8));
        break;
      case 3:
      case 4:
        change_digit(text, random);
        break;
      default:
        splice(text, random);
    }
  }
  return text;
}

struct text_kind {
  const char* name;
  std::string good;
  verdict (*read)(std::span<const std::uint8_t>);
};

const std::string tensors_of_two_layers = [] {
  std::string map;
  for (int i = 0; i < 200; ++i)
    map += R"("model.layers.)" + std::to_string(i) + R"(.weight":"model-)" + std::to_string(i % 3) +
           R"(.safetensors",)";
  return map + R"("lm_head.weight":"model-0.safetensors")";
}();

const std::vector<text_kind> text_kinds{
    {"config",
     R"({"model_type":"qwen3_moe","vocab_size":5,"hidden_size":8,"num_hidden_layers":2,"num_attention_heads":2,)"
     R"("num_key_value_heads":1,"head_dim":4,"num_experts":3,"num_experts_per_tok":2,"moe_intermediate_size":6,)"
     R"("rope_parameters":{"rope_type":"default","rope_theta":1e4},"mlp_only_layers":[],"hidden_act":"silu",)"
     R"("quantization_config":{"quant_method":"fp8","fmt":"e4m3","weight_block_size":[128,128]}})",
     test::read_any_config},
    {"index", R"({"metadata":{"total_size":1},"weight_map":{)" + tensors_of_two_layers + "}}",
     test::read_any_index},
    {"prompts", R"(["a",{"prompt":"b\u00e9"},"\n"])", test::read_any_prompts},
    {"expectations", R"([{"prompt":"a","greedy_continuation":"b"},{"prompt":"c","greedy_continuation":"d"}])",
     test::read_any_expectations},
    {"points",
     R"({"schema":"baton.bench.ep/2","axes":{"ranks":2,"tokens":4,"seed":1},"fused":{"round_trip":)"
     R"({"samples_us":[[1.5,2],[3,2.25]]}},"split":{"steps":{"samples_us":[[1,2]]}}})",
     test::read_any_points},
    {"rounds",
     R"({"schema":"baton.bench.ep/2","checked":true,"axes":{"ranks":2,"experts":8,"top_k":2,"hidden":256,)"
     R"("tokens":4,"format":"bf16","layout":"per_rank"},"fused":{"round_trip":{"median_us":50.5}}})",
     test::read_any_rounds},
    {"json", R"({"a":[1,-2.5,"x",null,true],"b":{"c":{"d":[[],{}]}}})", test::read_any_json}};

TEST(json_files_fuzz, damaged_texts_of_every_kind_are_read_right_or_refused) {
  generator random{20261121};
  for (const text_kind& kind : text_kinds) {
    int accepted = 0, refused = 0, long_ones = 0;
    for (int i = 0; i < 1500; ++i) {
      const std::string text = damaged(kind.good, random);
      const file_bytes input{text.begin(), text.end()};
      (kind.read(input) == verdict::accepted ? accepted : refused) += 1;
      long_ones += input.size() > 8192;
    }
    // All happen often, or the damage would be too tame or too wild to test anything.
    EXPECT_GT(accepted, 150) << kind.name;
    EXPECT_GT(refused, 150) << kind.name;
    EXPECT_GT(long_ones, 50) << kind.name;
  }
}

TEST(safetensors_fuzz, damaged_files_with_long_headers_are_read_right_or_refused) {
  std::string header = "{";
  for (int i = 0; i < 200; ++i)
    header += "\"w" + std::to_string(i) + R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" +
              std::to_string(i) + "," + std::to_string(i + 1) + "]},";
  header.back() = '}';
  generator random{20261121};
  int accepted = 0, refused = 0;
  for (int i = 0; i < 700; ++i)
    (read_any_safetensors(framed(damaged(header, random), 200)) == verdict::accepted ? accepted : refused) +=
        1;
  EXPECT_GT(accepted, 50);
  EXPECT_GT(refused, 200);
}

TEST(safetensors_fuzz, every_single_flipped_bit_of_a_file_is_read_right_or_refused) {
  file_bytes file = framed(good_header, good_data);
  ASSERT_EQ(read_any_safetensors(file), verdict::accepted);
  for (std::size_t bit = 0; bit < 8 * (file.size() - good_data); ++bit) {
    file[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
    read_any_safetensors(file);
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
