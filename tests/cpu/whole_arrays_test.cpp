#include "base/whole_arrays.hpp"

#include <gtest/gtest.h>

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

}  // namespace
