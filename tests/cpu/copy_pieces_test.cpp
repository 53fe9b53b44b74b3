#include <gtest/gtest.h>

#include <random>
#include <utility>
#include <vector>

#include "sim/copy_engine.hpp"

namespace baton::sim {
namespace {

copy_piece piece_of(std::uint64_t priority, std::size_t number) {
  copy_piece piece;
  piece.priority = priority;
  piece.bytes = number;
  return piece;
}

/// What copy_pieces says at once.
std::size_t first_of_the_highest(const std::vector<std::pair<std::uint64_t, std::size_t>>& pieces) {
  std::size_t most = 0;
  for (std::size_t i = 1; i < pieces.size(); ++i)
    if (pieces[i].first > pieces[most].first) most = i;
  return most;
}

TEST(copy_pieces, the_first_of_the_highest_priority_is_the_most_urgent_whatever_came_and_went) {
  std::mt19937 random{1};
  copy_pieces pieces;
  std::vector<std::pair<std::uint64_t, std::size_t>> same;
  for (std::size_t i = 0; i < 4000; ++i) {
    if (same.empty() || random() % 8 < (same.size() < 12 ? 5 : 3)) {
      const std::uint64_t priority = random() % 6;
      pieces.add(piece_of(priority, i));
      same.emplace_back(priority, i);
    } else if (random() % 64 == 0) {
      const std::size_t odd = random() % 2;
      pieces.erase_if([&](const copy_piece& piece) { return piece.bytes % 2 == odd; });
      std::erase_if(same, [&](const auto& piece) { return piece.second % 2 == odd; });
    } else {
      const std::size_t at = random() % 3 == 0 ? first_of_the_highest(same) : random() % same.size();
      ASSERT_EQ(pieces.take(at).bytes, same[at].second);
      same.erase(same.begin() + static_cast<std::ptrdiff_t>(at));
    }
    ASSERT_EQ(pieces.size(), same.size());
    if (same.empty() || random() % 4 == 0) continue;
    ASSERT_EQ(pieces.most_urgent(), first_of_the_highest(same)) << "after " << i;
  }
}

}  // namespace
}  // namespace baton::sim
