#include "cli/bench/ep_timer.hpp"

#include <chrono>

#include "baton/error.hpp"

namespace baton::cli {
namespace {

class cpu_timer : public ep_timer {
 public:
  explicit cpu_timer(ep_session& session) : session_{session} {}

  std::vector<step_times> time_steps(int set) override {
    step_times times{};
    for (int r = 0; r < session_.num_ranks(); ++r) session_.poison(r, {});
    synchronize();
    for (std::size_t i = 0; i < times.size(); ++i) times[i] = timed([&] { enqueue(ep_steps[i], set); });
    return std::vector<step_times>(session_.worlds().size(), times);
  }
  std::vector<double> time_round(int set) override {
    for (int r = 0; r < session_.num_ranks(); ++r) session_.poison(r, {});
    synchronize();
    const double us = timed([&] {
      for (const ep_step step : ep_steps) enqueue(step, set);
    });
    return std::vector<double>(session_.worlds().size(), us);
  }
  std::optional<std::vector<double>> time_replay(int) override { return std::nullopt; }

 private:
  void enqueue(ep_step step, int set) {
    for (int r = 0; r < session_.num_ranks(); ++r) session_.enqueue(step, r, set, {});
  }
  void synchronize() const {
    for (const world& rank : session_.worlds()) rank.synchronize();
  }
  double timed(const auto& work) const {
    const auto start = std::chrono::steady_clock::now();
    work();
    synchronize();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  }

  ep_session& session_;
};

}  // namespace

std::unique_ptr<ep_timer> make_timer(ep_session& session) {
  const bool cpu = session.worlds()[0].device() == device_kind::cpu;
  return cpu ? make_cpu_timer(session) : make_cuda_timer(session);
}

std::unique_ptr<ep_timer> make_cpu_timer(ep_session& session) {
  return std::make_unique<cpu_timer>(session);
}

}  // namespace baton::cli
