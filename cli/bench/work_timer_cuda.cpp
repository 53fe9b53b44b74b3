#include "cli/bench/streams_cuda.hpp"
#include "cli/bench/work_timer.hpp"

namespace baton::cli {
namespace {

class cuda_work_timer : public work_timer {
 public:
  explicit cuda_work_timer(const world& world) : worlds_{world}, streams_{worlds_, 2} {}

  double time(const work& run) override {
    streams_.hold(0);
    streams_.record(0, 0);
    run({streams_.stream(0)});
    streams_.record(0, 1);
    streams_.run();
    return streams_.microseconds(0, 0, 1);
  }

  void warm(const work& run) override {
    run({streams_.stream(0)});
    streams_.run();
  }

 private:
  std::vector<world> worlds_;
  rank_streams streams_;
};

}  // namespace

std::unique_ptr<work_timer> make_cuda_work_timer(const world& world) {
  return std::make_unique<cuda_work_timer>(world);
}

}  // namespace baton::cli
