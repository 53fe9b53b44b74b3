#pragma once
// Experts of a layer on the ranks' devices, with random weights, for layers that are measured.
#include <memory>
#include <vector>

#include "baton/expert_mlp.hpp"
#include "cli/bench/ep_session.hpp"
#include "cli/bench/gemm_operands.hpp"

namespace baton::cli {

struct layer_shape {
  int experts = 0;  // of all ranks
  int hidden = 0, intermediate = 0;
  weight_format weights = weight_format::bf16;
};

/// The values of one matrix of every expert of a rank, and their scales.
template <class Value>
struct layer_matrix {
  gemm_operand<Value> values;
  std::unique_ptr<gemm_operand<float>> scales;  // of FP8
};

/// `Value` is bfloat16 or float8_e4m3.
template <class Value>
class layer_experts : public ep_experts {
 public:
  /// @throws out_of_memory  the weights do not fit
  layer_experts(std::span<const world> worlds, const layer_shape& shape);
  /// The same weights with memory of their own for what they compute, on so many SMs of a GPU; 0: on all.
  layer_experts sharing_weights(int num_sms) const;

  void enqueue(int rank, const received_tokens& rows, stream_ref stream) override;
  const bfloat16* output(int rank) const override {
    return ranks_[static_cast<std::size_t>(rank)].output.data();
  }

  struct weights_of_rank {
    layer_matrix<Value> gate, up, down;
  };
  const weights_of_rank& weights(int rank) const { return *ranks_[static_cast<std::size_t>(rank)].weights; }

 private:
  struct rank_memory {
    std::shared_ptr<const weights_of_rank> weights;
    device_buffer<std::byte> scratch;
    device_buffer<bfloat16> output;
  };
  layer_experts(const layer_experts& of, int num_sms);
  expert_weights weights_for(int rank) const;

  std::span<const world> worlds_;
  layer_shape shape_;
  int num_sms_ = 0;
  std::vector<rank_memory> ranks_;
};
extern template class layer_experts<bfloat16>;
extern template class layer_experts<float8_e4m3>;

}  // namespace baton::cli
