#include "cli/bench/captured_rounds_cuda.hpp"

#include "cli/bench/ep_timer.hpp"
#include "runtime/device_guard_cuda.hpp"
#include "runtime/error_cuda.hpp"

namespace baton::cli {

captured_rounds::captured_rounds(rank_streams& streams, int num_ranks, int rounds,
                                 const std::function<void(int, int, cudaStream_t)>& enqueue,
                                 const std::function<void(int, cudaStream_t)>& finish)
    : streams_{streams}, rounds_{rounds} {
  for (int rank = 0; rank < num_ranks; ++rank) {
    const device_guard on_device{streams.device(rank)};
    const cudaStream_t stream = streams.stream(rank);
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "beginning a capture");
    for (int i = 0; i < gathering_rounds; ++i) enqueue(rank, i, stream);
    streams.record_in_graph(rank, 0);
    for (int i = 0; i < rounds; ++i) enqueue(rank, gathering_rounds + i, stream);
    streams.record_in_graph(rank, 1);
    finish(rank, stream);
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(stream, &graph), "ending a capture");
    const graph_owner source{graph};
    cudaGraphExec_t exec = nullptr;
    check(cudaGraphInstantiate(&exec, graph, 0), "instantiating a graph");
    graphs_.emplace_back(exec);
  }
}

std::vector<double> captured_rounds::replay() {
  const int num_ranks = static_cast<int>(graphs_.size());
  for (int rank = 0; rank < num_ranks; ++rank) {
    const device_guard on_device{streams_.device(rank)};
    check(cudaGraphUpload(graphs_[static_cast<std::size_t>(rank)].get(), streams_.stream(rank)),
          "uploading a graph");
    streams_.hold(rank);
  }
  for (int rank = 0; rank < num_ranks; ++rank) {
    const device_guard on_device{streams_.device(rank)};
    check(cudaGraphLaunch(graphs_[static_cast<std::size_t>(rank)].get(), streams_.stream(rank)),
          "replaying rounds");
  }
  streams_.run();
  std::vector<double> times;
  for (int rank = 0; rank < num_ranks; ++rank) times.push_back(streams_.microseconds(rank, 0, 1) / rounds_);
  return times;
}

}  // namespace baton::cli
