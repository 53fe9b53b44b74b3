#pragma once
// Ids that arrive with a flipped bit, in rounds of layout per_rank whose memory is the test's own.
#include <gtest/gtest.h>

#include "kernels/ep/per_rank/cells.hpp"
#include "tests/support/rank_memory.hpp"

namespace baton::test {

/// Of each rank's first ids at rank 0, every `step`-th bit, alone: each rank names the damage, or its result is right.
/// `window` says where ids lie.
template <class Rounds, class Cells>
void expect_flipped_ids_are_named_or_do_no_harm(Rounds& e, const Cells& window, std::size_t step) {
  auto before = e.memory;
  e.run(Rounds::send, [&](int stage) {
    if (stage == Rounds::receive) before = e.memory;
  });
  const auto right = e.memory;
  const int num_ranks = static_cast<int>(right.size());
  int named = 0;
  for (int source = 0; source < num_ranks; ++source) {
    const std::size_t first = window.ids_at(e.shape(), 1, source, 0);
    for (std::size_t bit = 0; bit < 8 * line_access_bytes; bit += step) {
      e.memory = before;
      e.of_rank(0).window[first + bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
      e.run(Rounds::receive);
      for (int rank = 0; rank < num_ranks; ++rank) {
        const bool has_named = e.of_rank(rank).record.complete != 0;
        named += has_named ? 1 : 0;
        EXPECT_TRUE(has_named || e.of_rank(rank).out == right[static_cast<std::size_t>(rank)].out)
            << "bit " << bit << " of rank " << source << "'s ids, rank " << rank;
      }
    }
  }
  EXPECT_GT(named, 0);
}

}  // namespace baton::test
