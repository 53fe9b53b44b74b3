#include "cli/bench/work_timer.hpp"

#include <chrono>
#include <ratio>

namespace baton::cli {
namespace {

class cpu_work_timer : public work_timer {
 public:
  explicit cpu_work_timer(const world& world) : world_{world} {}
  double time(const work& run) override {
    const auto start = std::chrono::steady_clock::now();
    run({});
    world_.synchronize();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  }
  void warm(const work& run) override {
    run({});
    world_.synchronize();
  }

 private:
  world world_;
};

}  // namespace

std::unique_ptr<work_timer> make_work_timer(const world& world) {
  if (world.device() == device_kind::cuda) return make_cuda_work_timer(world);
  return std::make_unique<cpu_work_timer>(world);
}

}  // namespace baton::cli
