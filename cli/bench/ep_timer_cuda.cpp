#include <cuda_runtime_api.h>

#include <map>

#include "cli/bench/ep_timer.hpp"
#include "cli/bench/streams_cuda.hpp"
#include "runtime/device_guard_cuda.hpp"
#include "runtime/error_cuda.hpp"

namespace baton::cli {
namespace {

class cuda_timer : public ep_timer {
 public:
  explicit cuda_timer(ep_session& session) : session_{session}, streams_{session.worlds(), 5} {}

  std::vector<step_times> time_steps(int set) override {
    hold();
    for (int i = 0; i < 4; ++i) {
      for (int r = 0; r < session_.num_ranks(); ++r) {
        session_.enqueue(ep_steps[i], r, set, {streams_.stream(r)});
        streams_.record(r, i + 1);
      }
    }
    streams_.run();
    std::vector<step_times> times(session_.worlds().size());
    for (int r = 0; r < session_.num_ranks(); ++r)
      for (int i = 0; i < 4; ++i)
        times[static_cast<std::size_t>(r)][static_cast<std::size_t>(i)] = streams_.microseconds(r, i, i + 1);
    return times;
  }

  std::vector<double> time_round(int set) override {
    hold();
    for (const ep_step step : ep_steps)
      for (int r = 0; r < session_.num_ranks(); ++r) session_.enqueue(step, r, set, {streams_.stream(r)});
    return run_and_read();
  }

  std::optional<std::vector<double>> time_replay(int set) override {
    for (int r = 0; r < session_.num_ranks(); ++r) {
      const device_guard on_device{device(r)};
      check(cudaGraphUpload(captured(r, set), streams_.stream(r)), "uploading a graph");
    }
    hold();
    for (int r = 0; r < session_.num_ranks(); ++r) {
      const device_guard on_device{device(r)};
      check(cudaGraphLaunch(captured(r, set), streams_.stream(r)), "replaying a round");
    }
    return run_and_read();
  }

 private:
  int device(int rank) const { return session_.worlds()[static_cast<std::size_t>(rank)].device_index(); }

  /// Poisons the outputs and stops every stream at the gate; event 0 is when it opens.
  void hold() {
    for (int r = 0; r < session_.num_ranks(); ++r) {
      session_.poison(r, {streams_.stream(r)});
      streams_.hold(r);
      streams_.record(r, 0);
    }
  }
  std::vector<double> run_and_read() {
    for (int r = 0; r < session_.num_ranks(); ++r) streams_.record(r, 1);
    streams_.run();
    std::vector<double> times;
    for (int r = 0; r < session_.num_ranks(); ++r) times.push_back(streams_.microseconds(r, 0, 1));
    return times;
  }

  /// The rank's round with this set of inputs. Capturing runs nothing, so rank after rank is fine.
  cudaGraphExec_t captured(int rank, int set) {
    graph_exec_owner& kept = graphs_[{rank, set}];
    if (kept == nullptr) {
      const cudaStream_t stream = streams_.stream(rank);
      check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "beginning a capture");
      for (const ep_step step : ep_steps) session_.enqueue(step, rank, set, {stream});
      cudaGraph_t graph = nullptr;
      check(cudaStreamEndCapture(stream, &graph), "ending a capture");
      const graph_owner source{graph};
      cudaGraphExec_t exec = nullptr;
      check(cudaGraphInstantiate(&exec, graph, 0), "instantiating a graph");
      kept.reset(exec);
    }
    return kept.get();
  }

  ep_session& session_;
  rank_streams streams_;
  std::map<std::pair<int, int>, graph_exec_owner> graphs_;
};

}  // namespace

std::unique_ptr<ep_timer> make_cuda_timer(ep_session& session) {
  return std::make_unique<cuda_timer>(session);
}

}  // namespace baton::cli
