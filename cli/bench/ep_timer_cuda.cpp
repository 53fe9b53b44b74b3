#include <map>

#include "cli/bench/captured_rounds_cuda.hpp"
#include "cli/bench/ep_timer.hpp"
#include "cli/bench/streams_cuda.hpp"

namespace baton::cli {
namespace {

class cuda_timer : public ep_timer {
 public:
  explicit cuda_timer(ep_session& session) : session_{session}, streams_{session.worlds(), 5} {}

  std::vector<std::vector<double>> time_steps(ep_form form, int set) override {
    const std::span<const ep_step> steps = steps_of(form);
    const int count = static_cast<int>(steps.size());
    hold();
    for (int i = 0; i < gathering_rounds; ++i) enqueue_round(form, set);
    for (int r = 0; r < session_.num_ranks(); ++r) streams_.record(r, 0);
    for (int i = 0; i < count; ++i) {
      for (int r = 0; r < session_.num_ranks(); ++r) {
        session_.enqueue(steps[static_cast<std::size_t>(i)], r, set, {streams_.stream(r)});
        streams_.record(r, i + 1);
      }
    }
    streams_.run();
    std::vector<std::vector<double>> times(session_.worlds().size());
    for (int r = 0; r < session_.num_ranks(); ++r)
      for (int i = 0; i < count; ++i)
        times[static_cast<std::size_t>(r)].push_back(streams_.microseconds(r, i, i + 1));
    return times;
  }

  std::vector<double> time_rounds(ep_form form, int rounds) override {
    hold();
    for (int i = -gathering_rounds; i < rounds; ++i) {
      if (i == 0)
        for (int r = 0; r < session_.num_ranks(); ++r) streams_.record(r, 0);
      enqueue_round(form, (i + gathering_rounds) % session_.num_sets());
    }
    for (int r = 0; r < session_.num_ranks(); ++r) streams_.record(r, 1);
    streams_.run();
    std::vector<double> times;
    for (int r = 0; r < session_.num_ranks(); ++r) times.push_back(streams_.microseconds(r, 0, 1) / rounds);
    return times;
  }

  std::optional<std::vector<double>> time_replay(ep_form form, int rounds) override {
    std::unique_ptr<captured_rounds>& kept = graphs_[{form, rounds}];
    if (kept == nullptr)
      kept = std::make_unique<captured_rounds>(
          streams_, session_.num_ranks(), rounds, [&](int rank, int round, cudaStream_t stream) {
            for (const ep_step step : steps_of(form))
              session_.enqueue(step, rank, round % session_.num_sets(), {stream});
          });
    poison();
    return kept->replay();
  }

 private:
  void poison() {
    for (int r = 0; r < session_.num_ranks(); ++r) session_.poison(r, {streams_.stream(r)});
  }
  void hold() {
    poison();
    for (int r = 0; r < session_.num_ranks(); ++r) streams_.hold(r);
  }
  /// All ranks send before any waits.
  void enqueue_round(ep_form form, int set) {
    for (const ep_step step : steps_of(form))
      for (int r = 0; r < session_.num_ranks(); ++r) session_.enqueue(step, r, set, {streams_.stream(r)});
  }

  ep_session& session_;
  rank_streams streams_;
  std::map<std::pair<ep_form, int>, std::unique_ptr<captured_rounds>> graphs_;
};

}  // namespace

std::unique_ptr<ep_timer> make_cuda_timer(ep_session& session) {
  return std::make_unique<cuda_timer>(session);
}

}  // namespace baton::cli
