// The arithmetic that stands for a division or a comparison on the GPU gives the same bits.
#include "base/convert.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/bits.hpp"
#include "base/dot.hpp"
#include "base/math.hpp"

namespace baton::test {
namespace {

TEST(divider, is_right_for_every_divisor_to_5000_and_numbers_around_its_multiples) {
  for (int by = 1; by <= 5000; ++by) {
    const divider d{by};
    for (const std::int64_t near : {std::int64_t{0}, std::int64_t{by} * 7, std::int64_t{1} << 31}) {
      for (std::int64_t n = std::max<std::int64_t>(0, near / by * by - 2);
           n <= std::min(near + 2, (std::int64_t{1} << 31) - 1); ++n) {
        const int of = static_cast<int>(n);
        ASSERT_EQ(d.quotient(of), of / by) << of << " by " << by;
        ASSERT_EQ(d.remainder(of), of % by) << of << " by " << by;
        if (n > near + 2) break;
      }
    }
  }
}

TEST(divided_by_448, is_the_division_for_every_scale_that_there_is) {
  constexpr float inverse = 1.0f / 448.0f;
  int tried = 0;
  for (std::uint32_t bits = 0; bits <= 0x7f80; ++bits) {
    const float largest = low_bf16(bits), x = largest < 1e-4f ? 1e-4f : largest;
    if (!std::isfinite(x)) continue;
    const float guess = x * inverse;
    const float on_gpu = std::fma(std::fma(-448.0f, guess, x), inverse, guess);
    ASSERT_EQ(on_gpu, x / 448.0f) << bits;
    ASSERT_EQ(divided_by_448(x), x / 448.0f);
    ++tried;
  }
  EXPECT_EQ(tried, 0x7f80);
}

/// What the format says of the bits of a number of no sign.
double value_of_fp16(std::uint16_t bits) {
  const int exponent = bits >> 10, mantissa = bits & 0x3ff;
  return exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(0x400 + mantissa, exponent - 25);
}

TEST(float16, every_number_is_what_the_format_says_alone_and_in_an_array) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float16 half = float16::from_bits(static_cast<std::uint16_t>(bits));
    const auto magnitude = static_cast<std::uint16_t>(bits & 0x7fff);
    const auto found = static_cast<float>(half);
    float of_array;
    widen(&half, 1, &of_array);
    EXPECT_EQ(std::signbit(found), bits >= 0x8000);
    EXPECT_EQ(std::signbit(of_array), bits >= 0x8000);
    if (magnitude > 0x7c00) {
      EXPECT_TRUE(std::isnan(found) && std::isnan(of_array));
      EXPECT_GT(float16{found}.bits & 0x7fff, 0x7c00);
      continue;
    }
    EXPECT_EQ(static_cast<double>(std::fabs(found)),
              magnitude == 0x7c00 ? std::numeric_limits<double>::infinity() : value_of_fp16(magnitude))
        << bits;
    EXPECT_EQ(found, of_array);
    EXPECT_EQ(float16{found}, half) << bits;
  }
}

TEST(float16, floats_become_the_nearest_and_ties_the_even_one) {
  for (std::uint16_t bits = 0; bits < 0x7c00; ++bits) {
    const auto next = static_cast<std::uint16_t>(bits + 1);  // of the largest: infinity, as if it were 65536
    const auto middle = static_cast<float>((value_of_fp16(bits) + value_of_fp16(next)) / 2);
    EXPECT_EQ(float16{middle}.bits, bits % 2 == 0 ? bits : next) << bits;
    EXPECT_EQ(float16{std::nextafter(middle, 0.0f)}.bits, bits);
    EXPECT_EQ(float16{-std::nextafter(middle, 1e9f)}.bits, next | 0x8000);
    EXPECT_EQ(pack_fp16(middle, -std::nextafter(middle, 0.0f)),
              float16{middle}.bits | static_cast<std::uint32_t>(bits | 0x8000) << 16);
    const two_floats both = widen_fp16(next | static_cast<std::uint32_t>(bits) << 16);
    EXPECT_EQ(both.low, static_cast<float>(float16::from_bits(next)));
    EXPECT_EQ(both.high, static_cast<float>(float16::from_bits(bits)));
  }
  EXPECT_EQ(float16{1e30f}.bits, 0x7c00);
  EXPECT_EQ(float16{-1e-30f}.bits, 0x8000);
}

TEST(larger_magnitudes, compares_both_halves_and_what_is_no_number_loses) {
  const std::uint32_t values[] = {0x0000, 0x8000, 0x0001, 0x3f80, 0xbf81,
                                  0x7f7f, 0xff80, 0x7f80, 0x7fc0, 0xffff};
  const auto is_number = [](std::uint32_t v) { return (v & 0x7fff) <= 0x7f80; };
  for (const std::uint32_t a : values) {
    for (const std::uint32_t b : values) {
      if (!is_number(a) && !is_number(b)) continue;
      const std::uint32_t most = larger_magnitudes(a | b << 16, b | a << 16);
      const float expected = !is_number(a)   ? std::fabs(low_bf16(b))
                             : !is_number(b) ? std::fabs(low_bf16(a))
                                             : std::max(std::fabs(low_bf16(a)), std::fabs(low_bf16(b)));
      EXPECT_EQ(low_bf16(most), expected) << a << " and " << b;
      EXPECT_EQ(high_bf16(most), expected) << a << " and " << b;
    }
  }
}

}  // namespace
}  // namespace baton::test
