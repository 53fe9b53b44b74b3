#pragma once
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace baton {

/// Waits of one rank for another that were not over at once.
struct peer_wait {
  std::uint64_t ns = 0;     // added up over the warps that waited: those of a kernel wait side by side
  std::uint64_t waits = 0;  // of warps
};

/// What world::wait_times() reads: how long a rank has waited for each of its peers.
struct peer_waits {
  int rank = 0;
  std::vector<peer_wait> peers;      // [size of the world]
  std::chrono::nanoseconds span{0};  // in which it did: since the world was made, or reset_wait_times()
};

/// Who waits for whom: of each rank, its waits for each other one.
struct wait_matrix {
  int num_ranks = 0;
  std::vector<peer_wait> cells;  // [who waits, for whom]
  const peer_wait& at(int rank, int peer) const {
    return cells[static_cast<std::size_t>(rank) * static_cast<std::size_t>(num_ranks) +
                 static_cast<std::size_t>(peer)];
  }
};

/// Of what all ranks say, in any order. A rank's waits for itself, which are for other blocks of its own, are kept.
/// @throws invalid_argument  not one for each rank of a world
wait_matrix matrix_of(std::span<const peer_waits> of_ranks);

/// The rank for which others waited at least twice as long, per peer that waited, as for the other ranks on average.
struct slow_rank {
  int rank = -1;     // -1: no rank stands out
  double share = 0;  // of all that ranks waited for others
};
/// A pure function; the lowest rank of equals.
slow_rank slowest(const wait_matrix& matrix);

/// The matrix in lines of text, in milliseconds, and who is slow, if anybody.
std::string to_text(const wait_matrix& matrix);

}  // namespace baton
