#pragma once
// Streams, events and graphs with owners, and a gate that lets the streams of several GPUs start together.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "baton/world.hpp"

namespace baton::cli {

template <auto Destroy>
struct destroy_with {
  template <class T>
  void operator()(T* object) const {
    static_cast<void>(Destroy(object));
  }
};
using stream_owner = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, destroy_with<&cudaStreamDestroy>>;
using event_owner = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, destroy_with<&cudaEventDestroy>>;
using graph_owner = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, destroy_with<&cudaGraphDestroy>>;
using graph_exec_owner =
    std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, destroy_with<&cudaGraphExecDestroy>>;

/// Holds streams until open(): each waits, on its GPU, for a word in host memory to reach the next turn.
class start_gate {
 public:
  /// @throws unsupported  the driver has no stream memory operations
  start_gate();
  ~start_gate();
  start_gate(const start_gate&) = delete;
  start_gate& operator=(const start_gate&) = delete;

  /// What is enqueued on `stream` from now on waits for open(). The stream's device must be current.
  void hold(cudaStream_t stream) const;
  void open();

 private:
  decltype(&cuStreamWaitValue32) wait_value_ = nullptr;
  volatile std::uint32_t* word_ = nullptr;
  std::uint32_t turn_ = 0;
};

/// For each rank of `worlds` a stream of its device, and `num_events` timing events. They start behind one gate.
class rank_streams {
 public:
  rank_streams(std::span<const world> worlds, int num_events);

  cudaStream_t stream(int rank) const { return ranks_[static_cast<std::size_t>(rank)].stream.get(); }
  int device(int rank) const { return worlds_[static_cast<std::size_t>(rank)].device_index(); }
  void hold(int rank) const;
  void record(int rank, int event) const;
  /// What is enqueued on the rank's stream from now on waits for what `other` recorded last.
  void wait(int rank, const rank_streams& other, int event) const;
  /// While the rank's stream is captured: every replay records the event.
  void record_in_graph(int rank, int event) const;
  /// Opens the gate and waits for all streams. @throws stuck
  void run();
  double microseconds(int rank, int from, int to) const;

 private:
  struct of_rank {
    stream_owner stream;
    std::vector<event_owner> events;
  };
  void record(int rank, int event, unsigned flags) const;

  std::span<const world> worlds_;
  std::vector<of_rank> ranks_;
  start_gate gate_;  // last: opens before the streams are destroyed
};

}  // namespace baton::cli
