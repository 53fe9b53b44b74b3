// Checkpoints with experts in FP8: every value against a search of our own, shapes around the blocks, refusals.
#include "cli/model/quantise_checkpoint.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "cli/model/shards.hpp"
#include "tests/cpu/says.hpp"
#include "tests/cpu/tiny_moe.hpp"
#include "tests/support/block_oracle.hpp"
#include "tests/support/parsed_json.hpp"
#include "tests/support/small_checkpoint.hpp"

namespace baton::test {
namespace {

namespace fs = std::filesystem;
using model::checkpoint;
using model::dtype;
using model::tensor_view;
using nlohmann::json;

const std::string gate_name = "model.layers.1.mlp.experts.2.gate_proj.weight";

std::vector<float> normal_weights(std::size_t count, std::uint32_t seed) {
  std::mt19937 random{seed};
  std::normal_distribution<float> normal{0.0f, 0.05f};
  std::vector<float> values(count);
  for (float& v : values) v = normal(random);
  return values;
}

std::vector<std::byte> raw_bytes(const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span{values});
  return {bytes.begin(), bytes.end()};
}

/// Shape [160, 300]: one and a quarter blocks of rows, two and a third of columns.
small_checkpoint odd_checkpoint(const std::vector<float>& gate) {
  small_checkpoint c{300, 160};
  c.values[gate_name] = raw_bytes(gate);
  return c;
}

/// The code nearest to `x`, ties to the even one.
std::uint8_t nearest_e4m3(float x) {
  const int code = nearest(e4m3_magnitudes, std::fabs(static_cast<double>(x)));
  return static_cast<std::uint8_t>(code | (std::signbit(x) ? 0x80 : 0));
}

/// What a matrix has to become, written anew from the documentation.
struct expected_matrix {
  std::vector<std::uint8_t> values;
  std::vector<float> scales;

  expected_matrix(const std::vector<float>& weights, std::size_t n, std::size_t k) : values(n * k) {
    for (std::size_t row = 0; row < n; row += 128) {
      for (std::size_t column = 0; column < k; column += 128) {
        std::vector<std::size_t> block;
        for (std::size_t r = row; r < std::min(n, row + 128); ++r)
          for (std::size_t c = column; c < std::min(k, column + 128); ++c) block.push_back(r * k + c);
        float most = 0;
        for (const std::size_t i : block) most = std::max(most, std::fabs(weights[i]));
        scales.push_back(std::max(most / 448, 0x1p-126f));
        for (const std::size_t i : block) values[i] = nearest_e4m3(weights[i] / scales.back());
      }
    }
  }
};

std::vector<std::uint8_t> codes_of(const tensor_view& view) {
  std::vector<std::uint8_t> codes;
  for (const std::byte b : bytes_of(view)) codes.push_back(std::to_integer<std::uint8_t>(b));
  return codes;
}

/// Empty, or what differs of the matrix of that name.
std::string difference(const fs::path& file, const expected_matrix& expected,
                       const std::string& name = gate_name) {
  const auto written = model::safetensors_file::open(file);
  const auto codes = codes_of(written.at(name));
  const auto scales = model::to_float(written.at(name + "_scale_inv"));
  if (codes.size() != expected.values.size()) return "size";
  const auto value = std::mismatch(codes.begin(), codes.end(), expected.values.begin());
  if (value.first != codes.end())
    return "value " + std::to_string(value.first - codes.begin()) + ": " + std::to_string(*value.first) +
           " instead of " + std::to_string(*value.second);
  return scales == expected.scales ? "" : "scales";
}

class quantise_odd : public testing::Test {
 protected:
  /// Writes a checkpoint with this gate and what becomes of it.
  model::quantised_checkpoint quantise(const small_checkpoint& c) {
    fs::create_directory(folder_ / "in");
    c.write(folder_ / "in");
    return model::quantise_checkpoint(checkpoint::open(folder_ / "in"), folder_ / "out");
  }
  std::string refusal(const small_checkpoint& c) {
    return message_of<bad_file>([&] { quantise(c); });
  }
  fs::path written() const { return folder_ / "out" / "model.safetensors"; }
  temporary_folder folder_;
};

TEST_F(quantise_odd, values_and_scales_are_those_of_the_definition_also_in_partial_blocks) {
  auto gate = normal_weights(160 * 300, 1);
  gate[0] = -448;  // in its block most values are among the smallest that e4m3 has, or become zeros
  gate[5] = -0.0f;
  quantise(odd_checkpoint(gate));
  EXPECT_EQ(difference(written(), {gate, 160, 300}), "");
}

TEST_F(quantise_odd, a_matrix_wider_than_a_strip_is_the_same_as_if_it_were_none) {
  const int wide = (1 << 16) + 200;
  small_checkpoint c{8, wide};
  for (const auto& [name, shape] : c.shapes) c.types[name] = dtype::bf16;
  const std::string down_name = "model.layers.0.mlp.experts.0.down_proj.weight";
  std::vector<float> down = normal_weights(8 * static_cast<std::size_t>(wide), 4);
  for (float& v : down) {
    const bfloat16 rounded{v};
    v = static_cast<float>(rounded);
    const auto bytes = std::as_bytes(std::span{&rounded, 1});
    c.values[down_name].insert(c.values[down_name].end(), bytes.begin(), bytes.end());
  }
  quantise(c);
  EXPECT_EQ(difference(written(), {down, 8, static_cast<std::size_t>(wide)}, down_name), "");
}

TEST_F(quantise_odd, planted_a_scale_of_another_block_and_a_value_rounded_the_other_way_are_noticed) {
  auto gate = normal_weights(160 * 300, 2);
  quantise(odd_checkpoint(gate));
  expected_matrix other_scale{gate, 160, 300}, other_value{gate, 160, 300};
  std::swap(other_scale.scales[0], other_scale.scales[3]);
  other_value.values[150 * 300 + 299] ^= 1;
  EXPECT_EQ(difference(written(), other_scale), "scales");
  EXPECT_NE(difference(written(), other_value), "");
}

TEST_F(quantise_odd, blocks_of_zeros_of_the_smallest_and_of_the_largest_numbers_are_finite_and_right) {
  std::vector<float> gate(160 * 300, 0.0f);
  for (std::size_t r = 0; r < 128; ++r) {
    gate[r * 300 + 128] = std::numeric_limits<float>::max();
    gate[r * 300 + 299] = std::numeric_limits<float>::denorm_min();
  }
  gate[150 * 300] = 0x1p-120f;
  quantise(odd_checkpoint(gate));
  EXPECT_EQ(difference(written(), {gate, 160, 300}), "");
  const auto scales = model::to_float(model::safetensors_file::open(written()).at(gate_name + "_scale_inv"));
  EXPECT_EQ(scales[0], 0x1p-126f);
  for (const float scale : scales) EXPECT_TRUE(std::isfinite(scale) && scale >= 0x1p-126f) << scale;
}

TEST_F(quantise_odd, ties_go_to_the_even_value_and_the_largest_stays_the_largest) {
  std::vector<float> gate(160 * 300, 0.0f);
  gate[0] = 448;  // scale 1
  const float given[] = {17, 19, -17, 0x1p-10f, 3 * 0x1p-10f, 0x1.fp-7f, 432, 447};
  const float expected[] = {16, 20, -16, 0, 0x1p-8f, 0x1p-6f, 448, 448};
  std::copy(std::begin(given), std::end(given), gate.begin() + 1);
  quantise(odd_checkpoint(gate));
  const auto codes = codes_of(model::safetensors_file::open(written()).at(gate_name));
  EXPECT_EQ(static_cast<float>(float8_e4m3::from_bits(codes[0])), 448);
  for (std::size_t i = 0; i < std::size(expected); ++i)
    EXPECT_EQ(static_cast<float>(float8_e4m3::from_bits(codes[1 + i])), expected[i]) << given[i];
}

TEST_F(quantise_odd, a_weight_that_is_no_number_is_named_with_its_place_and_nothing_is_left) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    auto gate = normal_weights(160 * 300, 3);
    gate[150 * 300 + 290] = bad;
    EXPECT_TRUE(says(refusal(odd_checkpoint(gate)), gate_name, "finite weights", "[150, 290]"));
    EXPECT_FALSE(fs::exists(folder_ / "out"));
  }
}

TEST_F(quantise_odd, the_loader_gives_back_what_was_written_and_half_the_bytes) {
  const auto gate = normal_weights(160 * 300, 5);
  quantise(odd_checkpoint(gate));
  const auto opened = checkpoint::open(folder_ / "out");
  const expected_matrix expected{gate, 160, 300};
  const model::expert_matrices all = opened.experts(1, 2, 1), more = opened.experts(1, 1, 2);
  EXPECT_EQ(all.format, weight_format::block_fp8);
  EXPECT_TRUE(all.gate.empty());
  ASSERT_EQ(all.fp8.gate.size(), expected.values.size());
  EXPECT_EQ(std::memcmp(all.fp8.gate.data(), expected.values.data(), expected.values.size()), 0);
  EXPECT_EQ(all.fp8.gate_scales, expected.scales);
  EXPECT_EQ(more.fp8.gate_scales.size(), 2 * expected.scales.size());
}

TEST_F(quantise_odd, what_is_in_fp8_already_is_refused) {
  quantise(odd_checkpoint(normal_weights(160 * 300, 6)));
  const auto message = message_of<invalid_argument>(
      [&] { model::quantise_checkpoint(checkpoint::open(folder_ / "out"), folder_ / "again"); });
  EXPECT_TRUE(says(message, "config.json", "quantization_config already"));
  EXPECT_FALSE(fs::exists(folder_ / "again"));
}

TEST_F(quantise_odd, counts_what_it_did_and_tells_how_far_it_is) {
  fs::create_directory(folder_ / "in");
  small_checkpoint{300, 160}.write(folder_ / "in");
  const auto from = checkpoint::open(folder_ / "in");
  std::uint64_t last = 0, all = 0;
  const auto done =
      model::quantise_checkpoint(from, folder_ / "out", [&](std::uint64_t now, std::uint64_t of) {
        EXPECT_GT(now, last);
        last = now;
        all = of;
      });
  EXPECT_EQ(done.files, 1);
  EXPECT_EQ(done.matrices, 18);
  EXPECT_EQ(done.tensors, 39);
  EXPECT_EQ(done.bytes_before, from.weight_bytes());
  EXPECT_EQ(last, all);
  EXPECT_EQ(all, from.weight_bytes());
  const std::uint64_t matrices = 18ull * 160 * 300;
  EXPECT_EQ(done.bytes_after, from.weight_bytes() - 3 * matrices + 18 * 6 * sizeof(float));
}

class quantise_tiny_moe : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new temporary_folder;
    model::quantise_checkpoint(tiny_moe(), out());
  }
  static void TearDownTestSuite() { delete folder_; }
  static fs::path out() { return *folder_ / "out"; }
  static temporary_folder* folder_;
};
temporary_folder* quantise_tiny_moe::folder_ = nullptr;

TEST_F(quantise_tiny_moe, keeps_shards_and_all_that_is_no_expert_bit_for_bit) {
  const model::shard_set written = model::open_shards(out());
  const model::shard_set& given = tiny_moe().shards();
  ASSERT_EQ(written.files.size(), given.files.size());
  EXPECT_EQ(written.tensors.size(), given.tensors.size() + 3 * 64 * 3);
  for (const auto& [name, view] : given.tensors) {
    const tensor_view& now = *written.tensors.at(name);
    EXPECT_EQ(fs::path{now.file()}.filename(), fs::path{view->file()}.filename()) << name;
    EXPECT_EQ(now.shape, view->shape) << name;
    EXPECT_EQ(now.type, model::is_of_expert(name) ? dtype::f8_e4m3 : dtype::bf16) << name;
    if (!model::is_of_expert(name)) EXPECT_EQ(bytes_of(now), bytes_of(*view)) << name;
  }
  for (std::size_t i = 0; i < given.files.size(); ++i)
    EXPECT_EQ(written.files[i].metadata(), given.files[i].metadata());
}

TEST_F(quantise_tiny_moe, writes_what_hugging_face_reads_into_config_and_index) {
  const json before = parsed_json(read_file(tiny_moe_folder() / "config.json"));
  json config = parsed_json(read_file(out() / "config.json"));
  const json quantised = config["quantization_config"];
  config.erase("quantization_config");
  EXPECT_EQ(config, before);
  EXPECT_EQ(quantised["quant_method"], "fp8");
  EXPECT_EQ(quantised["fmt"], "e4m3");
  EXPECT_EQ(quantised["activation_scheme"], "dynamic");
  EXPECT_EQ(quantised["weight_block_size"], (json{128, 128}));
  const auto others = quantised["modules_to_not_convert"].get<std::vector<std::string>>();
  EXPECT_EQ(others.size(), 2u + 3 * 5);
  for (const std::string name : {"lm_head", "model.layers.2.mlp.gate", "model.layers.0.self_attn.o_proj"})
    EXPECT_TRUE(std::find(others.begin(), others.end(), name) != others.end()) << name;
  const json index = parsed_json(read_file(out() / "model.safetensors.index.json"));
  std::uint64_t bytes = 0;
  for (const auto& [name, view] : model::open_shards(out()).tensors) bytes += view->size;
  EXPECT_EQ(index["metadata"]["total_size"], bytes);
}

TEST_F(quantise_tiny_moe, goes_into_an_empty_folder_and_into_nothing_else) {
  const temporary_folder other;
  const auto refused = [&](const fs::path& to) {
    return message_of<bad_file>([&] { model::quantise_checkpoint(tiny_moe(), to); });
  };
  write_file(other / "file", "mine");
  fs::create_directory_symlink(tiny_moe_folder(), other / "link");
  EXPECT_TRUE(says(refused(other.path()), "empty folder"));
  EXPECT_TRUE(says(refused(other / "file"), "expected a folder"));
  EXPECT_TRUE(says(refused(other / "none" / "out"), "cannot be made"));
  EXPECT_TRUE(says(
      message_of<invalid_argument>([&] { model::quantise_checkpoint(tiny_moe(), tiny_moe_folder() / "."); }),
      "is the model itself"));
  EXPECT_TRUE(
      says(message_of<invalid_argument>([&] { model::quantise_checkpoint(tiny_moe(), other / "link"); }),
           "is the model itself"));
  fs::create_directory(other / "target");
  fs::create_directory_symlink(other / "target", other / "elsewhere");
  EXPECT_TRUE(says(refused(other / "elsewhere"), "symbolic link"));
  EXPECT_TRUE(fs::is_empty(other / "target"));
  model::quantise_checkpoint(tiny_moe(), other / "target");
  EXPECT_EQ(read_file(other / "target" / "config.json"), read_file(out() / "config.json"));
}

}  // namespace
}  // namespace baton::test
