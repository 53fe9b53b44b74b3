#pragma once
#include <cstdint>

namespace baton {

/// Who takes part in a communicator's rounds.
struct ep_membership {
  std::uint64_t epoch = 0;         // grows with every change; 0: as created, with all ranks
  std::uint32_t active_ranks = 0;  // bit r: rank r takes part

  constexpr bool has(int rank) const { return (active_ranks >> rank & 1) != 0; }
  friend bool operator==(const ep_membership&, const ep_membership&) = default;
};

}  // namespace baton
