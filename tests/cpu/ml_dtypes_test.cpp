// Narrow values against ml_dtypes, an implementation that is not ours. Skipped where no Python has it.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "baton/numeric.hpp"
#include "tests/cpu/temporary_folder.hpp"

namespace baton::test {
namespace {

std::string python() {
  if (const char* named = std::getenv("BATON_PYTHON")) return named;
  const std::string prepared = BATON_SOURCE_DIR "/build/python/bin/python";
  return std::filesystem::exists(prepared) ? prepared : "python3";
}

/// What ml_dtypes says; see tests/support/ml_dtypes_codes.py.
class ml_dtypes : public testing::Test {
 protected:
  /// Every bf16, the float halfway to its successor, and that one's neighbours; no NaN.
  static std::vector<float> floats() {
    std::vector<float> values;
    for (std::uint32_t b = 0; b < 0x10000u; ++b) {
      for (const std::uint32_t low : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
        const float v = std::bit_cast<float>(b << 16 | low);
        if (!std::isnan(v)) values.push_back(v);
      }
    }
    return values;
  }

  void SetUp() override {
    write_file(folder_ / "floats",
               {reinterpret_cast<const char*>(values_.data()), values_.size() * sizeof(float)});
    const std::string command = "'" + python() +
                                "' '" BATON_SOURCE_DIR "/tests/support/ml_dtypes_codes.py' '" +
                                (folder_ / "floats").string() + "' '" + (folder_ / "codes").string() +
                                "' > '" + (folder_ / "said").string() + "' 2>&1";
    const int status = std::system(command.c_str());
    const std::string said = read_file(folder_ / "said");
    if (WIFEXITED(status) && (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127)) GTEST_SKIP() << said;
    ASSERT_EQ(status, 0) << said;
    codes_ = read_file(folder_ / "codes");
    ASSERT_EQ(codes_.size(), 2 * values_.size() + (256 + 16 + 256) * sizeof(float)) << said;
  }

  std::uint8_t e4m3(std::size_t i) const { return static_cast<std::uint8_t>(codes_[i]); }
  std::uint8_t e2m1(std::size_t i) const { return static_cast<std::uint8_t>(codes_[values_.size() + i]); }
  /// The i-th of all e4m3, e2m1 and e8m0.
  float widened(std::size_t i) const {
    float v;
    std::memcpy(&v, codes_.data() + 2 * values_.size() + i * sizeof(float), sizeof v);
    return v;
  }

  temporary_folder folder_;
  const std::vector<float> values_ = floats();
  std::string codes_;
};

bool is_same(float a, float b) {
  return std::isnan(a) ? std::isnan(b) : std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

TEST_F(ml_dtypes, rounds_every_bf16_and_the_floats_around_it_to_the_same_e4m3_and_e2m1) {
  for (std::size_t i = 0; i < values_.size(); ++i) {
    ASSERT_EQ(float8_e4m3{values_[i]}.bits, e4m3(i)) << std::hexfloat << values_[i];
    ASSERT_EQ(float4_e2m1{values_[i]}.bits, e2m1(i)) << std::hexfloat << values_[i];
  }
}

TEST_F(ml_dtypes, reads_every_e4m3_e2m1_and_e8m0_as_the_same_float) {
  for (std::size_t i = 0; i < 256; ++i) {
    const auto bits = static_cast<std::uint8_t>(i);
    EXPECT_TRUE(is_same(static_cast<float>(float8_e4m3::from_bits(bits)), widened(i))) << "e4m3 " << i;
    EXPECT_TRUE(is_same(static_cast<float>(float8_e8m0::from_bits(bits)), widened(256 + 16 + i)))
        << "e8m0 " << i;
    if (i >= 16) continue;
    EXPECT_TRUE(is_same(static_cast<float>(float4_e2m1::from_bits(bits)), widened(256 + i))) << "e2m1 " << i;
  }
}

TEST(narrow_values, a_nan_becomes_the_nan_there_is_and_otherwise_the_largest_value) {
  EXPECT_EQ(float8_e4m3{std::nanf("")}.bits, 0x7f);
  EXPECT_EQ(float4_e2m1{std::nanf("")}.bits, 7);
  EXPECT_EQ(float4_e2m1{-std::nanf("")}.bits, 15);
}

}  // namespace
}  // namespace baton::test
