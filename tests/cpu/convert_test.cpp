// The arithmetic that stands for a division or a comparison on the GPU gives the same bits.
#include "base/convert.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/bits.hpp"
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
