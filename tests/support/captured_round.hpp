#pragma once
// A rank's round as a CUDA graph of its own stream.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "tests/support/exchange_rank.hpp"

namespace baton::test {

struct captured_rank {
  cudaStream_t stream = nullptr;
  cudaGraphExec_t graph = nullptr;
};

/// On the device of each world, with a stream of its own.
inline std::vector<exchange_rank> make_captured_ranks(const std::vector<world>& worlds,
                                                      const ep_config& config,
                                                      std::vector<captured_rank>& captured) {
  captured.resize(worlds.size());
  std::vector<exchange_rank> ranks;
  auto eps = expert_parallel::create_all(worlds, config);
  for (std::size_t r = 0; r < worlds.size(); ++r) {
    EXPECT_EQ(cudaSetDevice(worlds[r].device_index()), cudaSuccess);
    EXPECT_EQ(cudaStreamCreateWithFlags(&captured[r].stream, cudaStreamNonBlocking), cudaSuccess);
    ranks.emplace_back(std::move(eps[r]), stream_ref{captured[r].stream});
  }
  return ranks;
}

/// `round(rank)` enqueues it.
template <class Round>
void capture_round(exchange_rank& rank, captured_rank& c, Round round) {
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaSetDevice(rank.ranks().device_index()), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(c.stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  round(rank);
  ASSERT_EQ(cudaStreamEndCapture(c.stream, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&c.graph, graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

/// Dispatches into `captured`, and combines into graphs of the same streams, which it returns.
inline std::vector<captured_rank> capture_apart(std::vector<exchange_rank>& ranks,
                                                std::vector<captured_rank>& captured) {
  std::vector<captured_rank> combines = captured;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    capture_round(ranks[r], captured[r], [](exchange_rank& rank) { rank.dispatch(); });
    capture_round(ranks[r], combines[r], [](exchange_rank& rank) { rank.combine(); });
  }
  return combines;
}

inline void destroy(std::vector<captured_rank>& captured) {
  for (captured_rank& c : captured) {
    EXPECT_EQ(cudaGraphExecDestroy(c.graph), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(c.stream), cudaSuccess);
  }
  captured.clear();
}

}  // namespace baton::test
