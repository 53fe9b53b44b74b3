#include <map>

#include "cli/bench/captured_rounds_cuda.hpp"
#include "cli/bench/overlapped_layers.hpp"
#include "cli/bench/streams_cuda.hpp"

namespace baton::cli {
namespace {

class cuda_layers : public overlapped_layers {
 public:
  explicit cuda_layers(const micro_batches& of)
      : batches_{of}, exchange_{of[0]->worlds(), 4}, experts_{of[0]->worlds(), 2} {}

  std::vector<double> time(int layers) override {
    std::unique_ptr<captured_rounds>& kept = graphs_[layers];
    if (kept == nullptr)
      kept = std::make_unique<captured_rounds>(
          exchange_, batches_[0]->num_ranks(), layers,
          [this](int rank, int layer, cudaStream_t) { enqueue_layer(rank, layer); },
          [this](int rank, cudaStream_t) {
            for (int batch = 0; batch < 2; ++batch) combine(rank, batch);
          });
    for (ep_session* batch : batches_)
      for (int r = 0; r < batch->num_ranks(); ++r) batch->poison(r, {exchange_.stream(r)});
    return kept->replay();
  }

 private:
  /// Events of a micro-batch: those of `exchange_` behind its dispatch, after the two that measure, and of `experts_`.
  static int dispatched(int batch) { return 2 + batch; }
  static int computed(int batch) { return batch; }

  void enqueue_layer(int rank, int layer) {
    for (int batch = 0; batch < 2; ++batch) {
      ep_session& its = *batches_[static_cast<std::size_t>(batch)];
      if (layer > 0) combine(rank, batch);
      const int set = layer % its.num_sets();
      its.enqueue(ep_step::dispatch, rank, set, {exchange_.stream(rank)});
      exchange_.record(rank, dispatched(batch));
      experts_.wait(rank, exchange_, dispatched(batch));
      its.enqueue(ep_step::experts, rank, set, {experts_.stream(rank)});
      experts_.record(rank, computed(batch));
    }
  }
  /// Combine reads nothing of a set of inputs.
  void combine(int rank, int batch) {
    exchange_.wait(rank, experts_, computed(batch));
    batches_[static_cast<std::size_t>(batch)]->enqueue(ep_step::combine, rank, 0, {exchange_.stream(rank)});
  }

  micro_batches batches_;
  rank_streams exchange_, experts_;
  std::map<int, std::unique_ptr<captured_rounds>> graphs_;
};

}  // namespace

std::unique_ptr<overlapped_layers> make_cuda_overlapped_layers(const micro_batches& of) {
  return std::make_unique<cuda_layers>(of);
}

}  // namespace baton::cli
