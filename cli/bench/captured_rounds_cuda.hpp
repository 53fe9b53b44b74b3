#pragma once
// Many rounds of every rank, each rank's in one CUDA graph, timed together: a round of ten microseconds is shorter than what
// lies between the starts of two ranks' graphs.
#include <functional>

#include "cli/bench/streams_cuda.hpp"

namespace baton::cli {

class captured_rounds {
 public:
  /// `enqueue(rank, round, stream)` enqueues a round of one rank. Capturing runs nothing: rank after rank is fine. Behind
  /// gathering rounds, in which ranks wait for each other, each graph records event 0 of `streams`, then `rounds`
  /// rounds, then event 1. `streams` must outlive this.
  /// `finish(rank, stream)` enqueues what has to follow, untimed: streams that a round made wait join again.
  captured_rounds(
      rank_streams& streams, int num_ranks, int rounds,
      const std::function<void(int rank, int round, cudaStream_t stream)>& enqueue,
      const std::function<void(int rank, cudaStream_t stream)>& finish = [](int, cudaStream_t) {});

  /// Microseconds a round, of each rank.
  std::vector<double> replay();

 private:
  rank_streams& streams_;
  int rounds_;
  std::vector<graph_exec_owner> graphs_;  // [rank]
};

}  // namespace baton::cli
