#pragma once
// Routing, counted: how many messages each rank's tokens are to each rank or expert, some tokens at a time.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "forecast/question.hpp"

namespace baton::forecast {

/// Tokens are counted by blocks of consecutive ones, each a token where there is room for that. A block's messages to one place
/// are one train (trains.hpp).
class routed {
 public:
  /// At most so many blocks, but for one of each rank's tokens to each place.
  static constexpr std::size_t most_cells = std::size_t{1} << 21;

  routed(const question& q, const choices_of_ranks& route, std::size_t cells = most_cells);

  int blocks() const { return blocks_; }
  int tokens_of_block() const { return block_tokens_; }

  /// Messages of a block of `source`'s tokens to an expert (per_expert), or to a rank (per_rank): a token is one, however many
  /// of its experts are there.
  std::uint32_t to_place(int source, int block, int place) const {
    return places_[cell(source, block, num_places_, place)];
  }
  /// To all places of a rank: [first_place, end_place).
  std::uint32_t to_rank(int source, int block, int rank) const;
  int first_place(int rank) const { return first_place_[static_cast<std::size_t>(rank)]; }
  int end_place(int rank) const { return first_place_[static_cast<std::size_t>(rank) + 1]; }

  /// Tokens of a block that have experts in a group.
  std::uint32_t to_group(int source, int block, int group) const {
    return groups_[cell(source, block, num_groups_, group)];
  }
  /// Rows that a rank gets, from itself too: one for each of a token's experts.
  std::uint64_t rows_of(int rank) const { return rows_[static_cast<std::size_t>(rank)]; }
  /// Tokens with experts on the rank, from itself too.
  std::uint64_t tokens_at(int rank) const { return tokens_[static_cast<std::size_t>(rank)]; }

 private:
  std::size_t cell(int source, int block, int width, int nth) const {
    const std::size_t row = static_cast<std::size_t>(source) * static_cast<std::size_t>(blocks_) +
                            static_cast<std::size_t>(block);
    return row * static_cast<std::size_t>(width) + static_cast<std::size_t>(nth);
  }
  void count_rank(const question& q, int source, std::span<const std::int32_t> ids);

  int num_places_, num_groups_, block_tokens_, blocks_;
  std::vector<int> first_place_;
  std::vector<std::int32_t> home_;  // [experts]
  std::vector<std::uint32_t> places_, groups_;
  std::vector<std::uint64_t> rows_, tokens_;
};

}  // namespace baton::forecast
