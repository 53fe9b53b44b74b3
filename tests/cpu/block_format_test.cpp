// Formats whose values share scales, against their rules in plain double arithmetic. The rules stand in baton/token_format.hpp.
#include "base/block_format.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/format_error.hpp"
#include "tests/support/block_oracle.hpp"

namespace baton::test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity(),
                nan = std::numeric_limits<float>::quiet_NaN();

/// A block as the lanes that share it make it together.
template <token_format Format>
expected_block found(const std::vector<float>& x, float tensor) {
  using format = block_format<Format>;
  std::uint32_t most = 0;
  std::vector<std::uint32_t> words;
  const int lanes = larger(format::lanes_per_block, 1);
  const auto values_of = [&](int lane, float(&v)[lane_values]) {
    for (int i = 0; i < lane_values; ++i) v[i] = x[static_cast<std::size_t>(lane * lane_values + i)];
  };
  for (int lane = 0; lane < lanes; ++lane) {
    float v[lane_values];
    values_of(lane, v);
    most = larger(most, format::largest(v));
  }
  const auto scale = format::scale_of(most, tensor_scaling_of(tensor));
  for (int lane = 0; lane < lanes; ++lane) {
    float v[lane_values];
    values_of(lane, v);
    std::uint32_t word[format::words];
    format::pack(v, scale, word);
    words.insert(words.end(), word, word + format::words);
  }
  expected_block b{static_cast<double>(static_cast<float>(scale.stored)), {}};
  for (std::size_t i = 0; i < x.size(); ++i)
    b.values.push_back(static_cast<double>(stored_value<Format>(words.data(), static_cast<std::int64_t>(i))));
  return b;
}

expected_block found(token_format format, const std::vector<float>& x, float tensor) {
  switch (format) {
    case token_format::blockwise_fp8:
      return found<token_format::blockwise_fp8>(x, tensor);
    case token_format::mxfp8:
      return found<token_format::mxfp8>(x, tensor);
    case token_format::mxfp4:
      return found<token_format::mxfp4>(x, tensor);
    default:
      return found<token_format::nvfp4>(x, tensor);
  }
}

void expect_as_the_rules_say(token_format format, const std::vector<float>& x, float tensor = 1.0f) {
  const expected_block right = expected(format, x, tensor), is = found(format, x, tensor);
  ASSERT_TRUE(right.scale == is.scale || (std::isnan(right.scale) && std::isnan(is.scale)))
      << name(format) << ": scale " << is.scale << ", not " << right.scale;
  for (std::size_t i = 0; i < x.size(); ++i)
    ASSERT_EQ(is.values[i], right.values[i])
        << name(format) << ": value " << i << ", " << x[i] << ", scale " << right.scale;
}

class block_formats : public testing::TestWithParam<token_format> {
 protected:
  std::size_t block() const { return static_cast<std::size_t>(facts_of(GetParam()).block); }
};

TEST_P(block_formats, every_bf16_is_stored_as_the_rules_say_beside_larger_and_smaller_values) {
  for (std::uint32_t bits = 0; bits < 0x8000; bits += static_cast<std::uint32_t>(block()) - 1) {
    std::vector<float> x(block());
    for (std::size_t i = 0; i + 1 < block(); ++i) {  // neighbours, with both signs
      const float v = low_bf16(smaller(bits + static_cast<std::uint32_t>(i), 0x7f7fu));
      x[i] = i % 3 == 0 ? -v : v;
    }
    for (const float other : {0.0f, 3.0f, -1e-30f}) {
      x.back() = other;
      expect_as_the_rules_say(GetParam(), x);
    }
  }
}

TEST_P(block_formats, floats_of_all_magnitudes_are_stored_as_the_rules_say) {
  std::mt19937 random{3};
  std::normal_distribution<float> normal;
  for (int exponent = -148; exponent <= 126; ++exponent) {
    for (const float tensor : {1.0f, 0.0123f, std::ldexp(1.0f, larger(smaller(exponent, 100), -100) - 8)}) {
      std::vector<float> x(block());
      for (float& v : x) v = std::ldexp(normal(random), exponent);
      for (float& v : x) v = std::isfinite(v) ? v : 1.0f;
      expect_as_the_rules_say(GetParam(), x, tensor);
    }
  }
}

TEST_P(block_formats, values_move_by_no_more_than_the_bound_that_results_are_held_to) {
  std::mt19937 random{5};
  std::normal_distribution<float> normal;
  double worst = 0;
  for (int n = 0; n < 300; ++n) {
    std::vector<float> x(block());
    std::vector<bfloat16> narrow;
    for (float& v : x) narrow.emplace_back(v = static_cast<float>(bfloat16{normal(random)}));
    const double scale = scale_of(GetParam(), narrow.data());
    const expected_block b = found(GetParam(), x, 1.0f);
    ASSERT_EQ(b.scale, scale);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double moved = std::fabs(b.values[i] * scale - static_cast<double>(x[i]));
      worst = std::max(worst, moved / format_error(GetParam(), static_cast<double>(x[i]), scale));
    }
  }
  EXPECT_LE(worst, 1.0);
  EXPECT_GT(worst, 0.9) << "a bound that nothing comes near says little";
}

TEST_P(block_formats, a_block_of_zeros_is_zeros_with_the_smallest_scale) {
  const expected_block b = found(GetParam(), std::vector<float>(block()), 1.0f);
  EXPECT_EQ(b.values, std::vector<double>(block(), 0.0));
  const double smallest = GetParam() == token_format::blockwise_fp8 ? static_cast<double>(1e-4f / 448.0f)
                          : GetParam() == token_format::nvfp4       ? 0.0
                                                                    : 0x1p-127;
  EXPECT_EQ(b.scale, smallest);
}

TEST_P(block_formats, what_is_no_number_spoils_its_block) {
  for (const float spoiler : {infinity, -infinity, nan, -nan}) {
    for (std::size_t i = 0; i < block(); ++i) {
      std::vector<float> x(block(), 2.0f);
      x[i] = spoiler;
      const expected_block b = found(GetParam(), x, 1.0f);
      if (GetParam() != token_format::blockwise_fp8) {
        EXPECT_TRUE(std::isnan(b.scale));
        EXPECT_EQ(b.values, std::vector<double>(block(), 0.0));
      } else if (std::isnan(spoiler)) {
        EXPECT_TRUE(std::isnan(b.values[i]));
        EXPECT_EQ(b.values[(i + 1) % block()], 448);
      } else {
        EXPECT_TRUE(std::isnan(b.values[i] * b.scale));
        EXPECT_TRUE(std::isnan(b.values[(i + 1) % block()] * b.scale));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(all, block_formats,
                         testing::Values(token_format::blockwise_fp8, token_format::mxfp8,
                                         token_format::mxfp4, token_format::nvfp4),
                         [](const auto& format) { return std::string{name(format.param)}; });

TEST(scale_places, are_all_different_and_within_the_count_in_every_layout) {
  for (const scale_layout layout :
       {scale_layout::row_major, scale_layout::column_major, scale_layout::tiled_128x4}) {
    for (const auto& [rows, blocks] : {std::pair{1, 1}, {128, 4}, {129, 5}, {300, 9}, {64, 3}}) {
      const scale_places places{layout, rows, blocks};
      std::set<std::int64_t> taken;
      for (int r = 0; r < rows; ++r)
        for (int b = 0; b < blocks; ++b) taken.insert(places.at(r, b));
      EXPECT_EQ(taken.size(), static_cast<std::size_t>(rows * blocks)) << name(layout);
      EXPECT_GE(*taken.begin(), 0);
      EXPECT_LT(*taken.rbegin(), places.count()) << name(layout);
    }
  }
}

TEST(scale_places, tiles_are_those_of_block_scaled_products) {
  const scale_places places{scale_layout::tiled_128x4, 256, 8};
  EXPECT_EQ(places.at(0, 3), 3);
  EXPECT_EQ(places.at(1, 0), 16) << "rows of a tile's quarter are 16 apart";
  EXPECT_EQ(places.at(32, 0), 4) << "the four quarters stand side by side";
  EXPECT_EQ(places.at(127, 3), 511);
  EXPECT_EQ(places.at(0, 4), 512) << "then the tile to the right";
  EXPECT_EQ(places.at(128, 0), 1024) << "then those below";
  EXPECT_EQ(places.count(), 2048);
  EXPECT_EQ((scale_places{scale_layout::tiled_128x4, 1, 1}.count()), 512) << "the last tile is whole";
}

}  // namespace
}  // namespace baton::test
