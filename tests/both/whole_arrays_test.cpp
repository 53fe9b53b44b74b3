#include "base/whole_arrays.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "base/dot.hpp"
#include "cli/model/expert_in_double.hpp"

namespace {

using namespace baton;

TEST(whole_arrays, a_sum_that_reads_behind_an_array_is_reported) {
#if defined(BATON_ADDRESSES_ARE_CHECKED)
  const std::vector<float> floats(40, 1.0f), short_of_one(39, 1.0f);
  const std::vector<bfloat16> rounded(40, bfloat16{1.0f});
  const std::vector<double> doubles(39, 1.0);
  EXPECT_EQ(dot(floats.data(), short_of_one.data(), 39), 39.0f);
  EXPECT_DEATH(dot(floats.data(), short_of_one.data(), 40), "AddressSanitizer");
  EXPECT_DEATH(dot(short_of_one.data(), floats.data(), 40), "AddressSanitizer");
  EXPECT_EQ(model::dot_in_double(rounded.data(), doubles.data(), 39), 39.0);
  EXPECT_DEATH(model::dot_in_double(rounded.data(), doubles.data(), 40), "AddressSanitizer");
#else
  GTEST_SKIP() << "AddressSanitizer is not in this build";
#endif
}

struct rows_and_factors {
  float rows[3][16], by[3];
};
rows_and_factors some_rows() {
  rows_and_factors r;
  for (std::size_t k = 0; k < 3; ++k) {
    r.by[k] = 1 / (3.0f + static_cast<float>(k));
    for (std::size_t i = 0; i < 16; ++i)
      r.rows[k][i] = static_cast<float>(i + 1) / (7.0f + static_cast<float>(k));
  }
  return r;
}

TEST(whole_arrays, rows_that_are_added_together_give_the_bits_of_one_after_the_other) {
  const auto [rows, by] = some_rows();
  float together[16], in_turn[16];
  for (std::size_t i = 0; i < 16; ++i) together[i] = in_turn[i] = 0.1f * static_cast<float>(i);
  add_scaled_rows(together, rows, by);
  for (std::size_t k = 0; k < 3; ++k) add_scaled(in_turn, rows[k], by[k], 16);
  for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(together[i], in_turn[i]) << i;
}

TEST(whole_arrays, rows_that_are_added_behind_an_array_are_reported) {
#if defined(BATON_ADDRESSES_ARE_CHECKED)
  const auto [rows, by] = some_rows();
  std::vector<float> short_of_one(15);
  EXPECT_DEATH(add_scaled_rows(*reinterpret_cast<float(*)[16]>(short_of_one.data()), rows, by),
               "AddressSanitizer");
#else
  GTEST_SKIP() << "AddressSanitizer is not in this build";
#endif
}

}  // namespace
