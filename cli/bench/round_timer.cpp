#include "cli/bench/round_timer.hpp"

#include <chrono>
#include <ratio>

#include "cli/bench/ep_timer.hpp"

namespace baton::cli {
namespace {

class cpu_round_timer : public round_timer {
 public:
  explicit cpu_round_timer(const world& own) : own_{own} {}
  double time(int rounds, const work& round) override {
    run(gathering_rounds, round);
    const auto start = std::chrono::steady_clock::now();
    run(rounds, round);
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() /
           rounds;
  }

 private:
  void run(int rounds, const work& round) const {
    for (int i = 0; i < rounds; ++i) round({});
    own_.synchronize();
  }

  world own_;
};

}  // namespace

std::unique_ptr<round_timer> make_round_timer(const world& own) {
  if (own.device() == device_kind::cuda) return make_cuda_round_timer(own);
  return std::make_unique<cpu_round_timer>(own);
}

}  // namespace baton::cli
