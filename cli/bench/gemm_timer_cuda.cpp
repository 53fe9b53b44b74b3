#include "cli/bench/gemm_session.hpp"
#include "cli/bench/streams_cuda.hpp"

namespace baton::cli {
namespace {

class cuda_gemm_timer : public gemm_timer {
 public:
  explicit cuda_gemm_timer(const world& world) : worlds_{world}, streams_{worlds_, 2} {}

  double time(gemm_session& session, const product& run) override {
    streams_.hold(0);
    streams_.record(0, 0);
    session.enqueue(run, {streams_.stream(0)});
    streams_.record(0, 1);
    streams_.run();
    return streams_.microseconds(0, 0, 1);
  }

 private:
  std::vector<world> worlds_;
  rank_streams streams_;
};

}  // namespace

std::unique_ptr<gemm_timer> make_cuda_gemm_timer(const world& world) {
  return std::make_unique<cuda_gemm_timer>(world);
}

}  // namespace baton::cli
