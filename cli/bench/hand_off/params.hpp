#pragma once
#include <cstdint>

#include "cli/bench/hand_off/hand_off.hpp"
#include "protocol/ring/strategies.hpp"

namespace baton::hand_off {

template <ring_strategy S, int stages, int readers>
using strategy_at = strategy_of<S, ring_shape{stages, 1, 1, readers}>;

struct params {
  int readers;            // of counts
  int hand_offs;          // in each block
  std::uint64_t* cycles;  // [blocks]: of all hand-offs of the block
};

}  // namespace baton::hand_off
