#include "cli/bench/ep_timer.hpp"
#include "cli/bench/round_timer.hpp"
#include "cli/bench/streams_cuda.hpp"

namespace baton::cli {
namespace {

class cuda_round_timer : public round_timer {
 public:
  explicit cuda_round_timer(const world& own) : worlds_{own}, streams_{worlds_, 2} {}

  double time(int rounds, const work& round) override {
    const stream_ref stream{streams_.stream(0)};
    streams_.hold(0);
    for (int i = 0; i < gathering_rounds; ++i) round(stream);
    streams_.record(0, 0);
    for (int i = 0; i < rounds; ++i) round(stream);
    streams_.record(0, 1);
    char here = 0;
    std::vector<char> all(static_cast<std::size_t>(worlds_[0].size()));
    worlds_[0].all_gather(&here, all.data(), 1);  // all have enqueued theirs
    streams_.run();
    return streams_.microseconds(0, 0, 1) / rounds;
  }

 private:
  std::vector<world> worlds_;
  rank_streams streams_;
};

}  // namespace

std::unique_ptr<round_timer> make_cuda_round_timer(const world& own) {
  return std::make_unique<cuda_round_timer>(own);
}

}  // namespace baton::cli
