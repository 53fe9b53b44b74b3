// Work of the benchmarks on all cores: nothing is left out or done twice, and errors come out.
#include "cli/bench/on_cores.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

namespace baton::cli {
namespace {

TEST(on_cores, parts_cover_everything_once) {
  for (std::size_t count = 0; count <= 9; ++count) {
    for (std::size_t parts = 1; parts <= 12; ++parts) {
      std::vector<std::atomic<int>> done(count);
      std::atomic<std::size_t> calls{0};
      in_parts(count, parts, [&](std::size_t begin, std::size_t end) {
        ++calls;
        for (std::size_t i = begin; i < end; ++i) ++done.at(i);
      });
      EXPECT_EQ(calls, parts);
      for (const std::atomic<int>& once : done) EXPECT_EQ(once, 1) << count << " in " << parts;
    }
  }
}

TEST(on_cores, there_are_no_more_parts_than_things_to_do) {
  std::atomic<int> calls{0}, things{0};
  on_cores(1, 1, [&](std::size_t begin, std::size_t end) {
    ++calls;
    things += static_cast<int>(end - begin);
  });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(things, 1);
}

TEST(on_cores, what_any_part_throws_comes_out_when_all_have_ended) {
  for (const std::size_t thrower : {0u, 3u, 5u}) {
    std::atomic<int> ended{0};
    EXPECT_THROW(in_parts(6, 6,
                          [&](std::size_t begin, std::size_t) {
                            ++ended;
                            if (begin == thrower) throw std::runtime_error{"a part's own"};
                          }),
                 std::runtime_error);
    EXPECT_EQ(ended, 6);
  }
}

}  // namespace
}  // namespace baton::cli
