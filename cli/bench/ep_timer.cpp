#include "cli/bench/ep_timer.hpp"

#include <chrono>
#include <ratio>

#include "baton/error.hpp"

namespace baton::cli {
namespace {

class cpu_timer : public ep_timer {
 public:
  explicit cpu_timer(ep_session& session) : session_{session} {}

  std::vector<std::vector<double>> time_steps(ep_form form, int set) override {
    poison();
    std::vector<double> times;
    for (const ep_step step : steps_of(form)) times.push_back(timed([&] { enqueue(step, set); }));
    return std::vector<std::vector<double>>(session_.worlds().size(), times);
  }
  std::vector<double> time_rounds(ep_form form, int rounds) override {
    poison();
    const double us = timed([&] {
      for (int i = 0; i < rounds; ++i)
        for (const ep_step step : steps_of(form)) enqueue(step, i % session_.num_sets());
    });
    return std::vector<double>(session_.worlds().size(), us / rounds);
  }
  std::optional<std::vector<double>> time_replay(ep_form, int) override { return std::nullopt; }

 private:
  void poison() {
    for (int r = 0; r < session_.num_ranks(); ++r) session_.poison(r, {});
    synchronize();
  }
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

std::vector<double> of_step(const std::vector<std::vector<double>>& times, std::size_t step) {
  std::vector<double> values;
  for (const std::vector<double>& of_rank : times) values.push_back(of_rank[step]);
  return values;
}

std::unique_ptr<ep_timer> make_timer(ep_session& session) {
  const bool cpu = session.worlds()[0].device() == device_kind::cpu;
  return cpu ? make_cpu_timer(session) : make_cuda_timer(session);
}

std::unique_ptr<ep_timer> make_cpu_timer(ep_session& session) {
  return std::make_unique<cpu_timer>(session);
}

}  // namespace baton::cli
