#pragma once
// What tests of ring_gemm share, for both devices.
#include "baton/ring_gemm.hpp"
#include "tests/support/gemm_case.hpp"

namespace baton::test {

inline constexpr ring_strategy all_ring_strategies[] = {
    ring_strategy::single_counter, ring_strategy::split_counter, ring_strategy::per_reader_flags,
    ring_strategy::mbarrier};

}  // namespace baton::test
