// Sums of rows have the same bits on every CPU: with its fused multiply-adds, with libm's, and as computed here.
#include "base/add_weighted.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace baton {
namespace {

/// weight * value + sum, rounded once. The product is exact in fp64; the sum is rounded there to odd, which a
/// second rounding to fp32 cannot tell from the exact sum.
float rounded_once(float weight, float value, float sum) {
  const double product = static_cast<double>(weight) * value, addend = sum;
  double total = product + addend;
  if (!std::isfinite(total)) return static_cast<float>(total);
  const double part = total - product;
  const double lost = (product - (total - part)) + (addend - part);
  if (lost != 0 && std::bit_cast<std::uint64_t>(total) % 2 == 0)
    total = std::nextafter(total, std::copysign(std::numeric_limits<double>::infinity(), lost));
  return static_cast<float>(total);
}

float rounded_twice_in_fp32(float weight, float value, float sum) {
  const volatile float product = weight * value;
  return product + sum;
}
float rounded_in_fp64_first(float weight, float value, float sum) {
  return static_cast<float>(static_cast<double>(weight) * value + sum);
}

bool is_same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

struct operands {
  float weight;
  std::uint32_t values[4];
  float sum[8];
  float value(int i) const { return i % 2 == 0 ? low_bf16(values[i / 2]) : high_bf16(values[i / 2]); }
};

/// How many columns `add` gets wrong.
template <class Add>
int wrong_columns(const std::vector<operands>& cases, Add add) {
  int wrong = 0;
  for (const operands& o : cases) {
    operands result = o;
    add(result.sum, o.weight, o.values);
    for (int i = 0; i < 8; ++i)
      wrong += !is_same(result.sum[i], rounded_once(o.weight, o.value(i), o.sum[i]));
  }
  return wrong;
}
template <float (*Each)(float, float, float)>
void by_column(float (&sum)[8], float weight, const std::uint32_t (&values)[4]) {
  const operands o{weight, {values[0], values[1], values[2], values[3]}, {}};
  for (int i = 0; i < 8; ++i) sum[i] = Each(weight, o.value(i), sum[i]);
}

/// A sum for which column `i` is hard: what is left of a cancelled product, twice a product's size (half a unit in its
/// last place), a special number, or any bits.
float hard_sum(std::mt19937& bits, float weight, float value) {
  using limits = std::numeric_limits<float>;
  static constexpr float special[] = {
      0.0f,          -0.0f,         limits::denorm_min(), -limits::denorm_min(),
      limits::min(), limits::max(), -limits::max(),       limits::infinity(),
      1.0f,          -1.0f,         -limits::infinity(),  limits::quiet_NaN()};
  const std::uint32_t draw = bits();
  switch (draw % 4) {
    case 0:
      return -(weight * value);
    case 1:
      return std::ldexp(weight * value, 24);
    case 2:
      return special[draw / 4 % std::size(special)];
    default:
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits()));
  }
}

/// Every bf16 number in every column's place, with weights of any bits, of a router, and powers of two.
std::vector<operands> hard_cases() {
  std::mt19937 bits{7};
  std::vector<operands> cases;
  for (std::uint32_t first = 0; first < 65536; first += 2) {
    operands& o = cases.emplace_back();
    const std::uint32_t draw = bits();
    o.weight = draw % 3 == 0   ? std::bit_cast<float>(static_cast<std::uint32_t>(bits()))
               : draw % 3 == 1 ? std::ldexp(static_cast<float>(draw / 3 % 65536), -16)
                               : std::ldexp(1.0f, static_cast<int>(draw / 3 % 300) - 150);
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t at = (first + 16384u * static_cast<std::uint32_t>(i)) % 65536;
      o.values[i] = at | (at + 1) << 16;
    }
    for (int i = 0; i < 8; ++i) o.sum[i] = hard_sum(bits, o.weight, o.value(i));
  }
  // 205 * 5237765 is 2^30 + 1: 1 and that, times 2^-54, are a hair above the middle of two fp32 numbers.
  const std::uint32_t both = pack_bf16(205.0f, -205.0f);
  cases.push_back({std::ldexp(5237765.0f, -54), {both, both, both, both}, {1, -1, 1, -1, 1, -1, 1, -1}});
  return cases;
}

TEST(add_weighted, has_the_bits_of_one_rounding_whatever_this_cpu_computes_it_with) {
  const auto cases = hard_cases();
  EXPECT_EQ(wrong_columns(cases, [](auto&... o) { add_weighted(o...); }), 0);
  EXPECT_EQ(wrong_columns(cases, [](auto&... o) { add_weighted_by_column(o...); }), 0);
}

TEST(add_weighted, sums_that_are_rounded_twice_would_be_noticed) {
  const auto cases = hard_cases();
  EXPECT_GT(wrong_columns(cases, by_column<rounded_twice_in_fp32>), 1000);
  EXPECT_GE(wrong_columns(cases, by_column<rounded_in_fp64_first>), 8) << "a tie after the first rounding";
}

}  // namespace
}  // namespace baton
