// Words of lines that their readers clear.
#include "protocol/cleared_line.hpp"

#include <gtest/gtest.h>

namespace baton::test {
namespace {

TEST(cleared_line, no_word_travels_as_0_and_all_but_one_are_what_they_were) {
  for (int bit = 0; bit < 64; ++bit) {
    const std::uint64_t one = std::uint64_t{1} << bit;
    for (const std::uint64_t data : {one, ~one, one - 1, ~(one - 1)}) {
      const bool is_ones = data == ~std::uint64_t{0};
      EXPECT_NE(as_cleared_word(data), 0u);
      EXPECT_EQ(~as_cleared_word(data), is_ones ? data >> 1 : data) << "ones lose a sign: NaN stay NaN";
    }
  }
}

}  // namespace
}  // namespace baton::test
