// Words that are their own news: what makes one of a round, and that no other is.
#include "protocol/id_word.hpp"

#include <gtest/gtest.h>

#include <random>

#include "protocol/membership.hpp"

namespace baton::test {
namespace {

TEST(id_word, gives_its_data_back_and_is_of_its_round_alone) {
  std::mt19937_64 random{1};
  for (int i = 0; i < 10000; ++i) {
    const std::uint64_t epoch = random() >> (i % 64), data = random() & id_word::data_mask,
                        word = id_word::of(epoch, data);
    EXPECT_EQ(id_word::data(word), data);
    EXPECT_TRUE(id_word::is(word, epoch));
    for (const std::uint64_t rounds : {1, 2, 3, 4, 1000}) EXPECT_FALSE(id_word::is(word, epoch + rounds));
  }
}

TEST(id_word, with_one_flipped_bit_is_none_of_its_round) {
  std::mt19937_64 random{2};
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t epoch = random(), word = id_word::of(epoch, random() & id_word::data_mask);
    for (int bit = 0; bit < 64; ++bit)
      EXPECT_FALSE(id_word::is(word ^ std::uint64_t{1} << bit, epoch)) << "bit " << bit << " of " << word;
  }
}

TEST(id_word, of_zeros_is_none_of_the_rounds_that_find_them) {
  EXPECT_FALSE(id_word::is(0, 1));
  EXPECT_FALSE(id_word::is(0, 2));
}

TEST(member_word, with_one_flipped_bit_is_none_that_anybody_tells) {
  for (const std::uint64_t epoch : {0ull, 1ull, 2ull, 3ull, 1000ull, (1ull << 55) - 1}) {
    for (const std::uint32_t members : {0x1u, 0x3u, 0x7fu, 0xffu}) {
      const std::uint64_t word = member_word(epoch, members);
      EXPECT_EQ(epoch_of_word(word), epoch);
      EXPECT_EQ(word & 0xff, members);
      EXPECT_TRUE(is_told(word));
      for (int bit = 0; bit < 64; ++bit) {
        const std::uint64_t flipped = word ^ std::uint64_t{1} << bit;
        EXPECT_FALSE(is_told(flipped));
        EXPECT_NE(flipped, member_word(epoch_of_word(flipped), static_cast<std::uint32_t>(flipped) & 0xff));
      }
    }
  }
}

}  // namespace
}  // namespace baton::test
