#include "cli/bench/overlapped_layers.hpp"

#include <chrono>
#include <ratio>

namespace baton::cli {
namespace {

class cpu_layers : public overlapped_layers {
 public:
  explicit cpu_layers(const micro_batches& of) : batches_{of} {}

  std::vector<double> time(int layers) override {
    for (ep_session* batch : batches_)
      for (int r = 0; r < batch->num_ranks(); ++r) batch->poison(r, {});
    const auto start = std::chrono::steady_clock::now();
    for (int layer = 0; layer < layers; ++layer)
      for (const ep_step step : fused_layer_steps)
        for (ep_session* batch : batches_) enqueue(*batch, step, layer);
    for (const world& rank : batches_[0]->worlds()) rank.synchronize();
    const double us =
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
    return std::vector<double>(batches_[0]->worlds().size(), us / layers);
  }

 private:
  static void enqueue(ep_session& batch, ep_step step, int layer) {
    for (int r = 0; r < batch.num_ranks(); ++r) batch.enqueue(step, r, layer % batch.num_sets(), {});
  }

  micro_batches batches_;
};

}  // namespace

std::unique_ptr<overlapped_layers> make_overlapped_layers(const micro_batches& of) {
  if (of[0]->worlds()[0].device() == device_kind::cuda) return make_cuda_overlapped_layers(of);
  return std::make_unique<cpu_layers>(of);
}

}  // namespace baton::cli
