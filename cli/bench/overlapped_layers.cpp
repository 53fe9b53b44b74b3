#include "cli/bench/overlapped_layers.hpp"

#include "cli/bench/ep_timer.hpp"

namespace baton::cli {
namespace {

class cpu_layers : public overlapped_layers {
 public:
  explicit cpu_layers(const micro_batches& of) : timers_{make_cpu_timer(*of[0]), make_cpu_timer(*of[1])} {}

  std::vector<double> time(int layers) override {
    std::vector<double> us = timers_[0]->time_rounds(ep_form::fused_layer, layers);
    const std::vector<double> of_second = timers_[1]->time_rounds(ep_form::fused_layer, layers);
    for (std::size_t rank = 0; rank < us.size(); ++rank) us[rank] += of_second[rank];
    return us;
  }

 private:
  std::array<std::unique_ptr<ep_timer>, 2> timers_;
};

}  // namespace

std::unique_ptr<overlapped_layers> make_overlapped_layers(const micro_batches& of) {
  if (of[0]->worlds()[0].device() == device_kind::cuda) return make_cuda_overlapped_layers(of);
  return std::make_unique<cpu_layers>(of);
}

}  // namespace baton::cli
