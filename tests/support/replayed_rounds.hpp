#pragma once
// A captured round of two GPUs, replayed with other inputs in the same buffers.
#include "tests/support/captured_round.hpp"
#include "tests/support/identity_experts.hpp"

namespace baton::test {

/// 100 replays each of a fused round and of one whose calls are apart, right to the bit. Rows lie by expert.
inline void expect_right_replays(const exchange_case& c) {
  for (const calls how : {calls::fused, calls::apart}) {
    std::vector<captured_rank> captured;
    auto ranks = make_captured_ranks(world::local(2, device_kind::cuda), c.config, captured);
    auto inputs = draw_inputs(c, 1);
    for (std::size_t r = 0; r < 2; ++r) {
      ranks[r].load(inputs[r]);
      ranks[r].ranks().synchronize({captured[r].stream});
      ASSERT_NO_FATAL_FAILURE(capture_round(
          ranks[r], captured[r], [how](exchange_rank& rank) { enqueue_identity_round(rank, how); }));
    }
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
      inputs = draw_inputs(c, seed);
      for (std::size_t r = 0; r < 2; ++r) ranks[r].load(inputs[r]);
      for (auto& rank : captured) ASSERT_EQ(cudaGraphLaunch(rank.graph, rank.stream), cudaSuccess);
      for (std::size_t r = 0; r < 2; ++r)
        ASSERT_EQ(difference(identity_output(c, inputs[r], static_cast<int>(r)), ranks[r].read_output()), "")
            << "replay " << seed << " rank " << r;
    }
    destroy(captured);
  }
}

}  // namespace baton::test
