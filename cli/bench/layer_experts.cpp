#include "cli/bench/layer_experts.hpp"

#include <type_traits>

namespace baton::cli {
namespace {

const memory_use of_layer_weights{"the experts' weights", "use more --ranks"},
    of_layer_rows{"what experts compute", "lower --tokens"};

/// Of `experts` matrices [n, k].
template <class Value>
layer_matrix<Value> random_matrix(const world& w, int experts, int n, int k, std::uint32_t seed) {
  const auto volume = [experts](int rows, int columns) {
    return static_cast<std::size_t>(experts) * static_cast<std::size_t>(rows) *
           static_cast<std::size_t>(columns);
  };
  layer_matrix<Value> made{{w, volume(n, k), seed, of_layer_weights}, nullptr};
  made.values.random_values();
  if constexpr (std::is_same_v<Value, float8_e4m3>) {
    made.scales = std::make_unique<gemm_operand<float>>(w, volume(weight_scales(n), weight_scales(k)),
                                                        seed + 1, of_layer_weights);
    made.scales->random_values();
  }
  return made;
}

}  // namespace

template <class Value>
layer_experts<Value>::layer_experts(std::span<const world> worlds, const layer_shape& shape)
    : worlds_{worlds}, shape_{shape}, ranks_(worlds.size()) {
  for (std::size_t r = 0; r < worlds.size(); ++r) {
    const world& w = worlds[r];
    const int own = experts_of_rank(shape.experts, w.size(), w.rank()).count;
    const auto seed = static_cast<std::uint32_t>(100 * r + 10);
    ranks_[r].weights = std::make_shared<const weights_of_rank>(
        weights_of_rank{random_matrix<Value>(w, own, shape.intermediate, shape.hidden, seed),
                        random_matrix<Value>(w, own, shape.intermediate, shape.hidden, seed + 2),
                        random_matrix<Value>(w, own, shape.hidden, shape.intermediate, seed + 4)});
  }
}

template <class Value>
layer_experts<Value>::layer_experts(const layer_experts& of, int num_sms)
    : worlds_{of.worlds_}, shape_{of.shape_}, num_sms_{num_sms}, ranks_(of.ranks_.size()) {
  for (std::size_t r = 0; r < ranks_.size(); ++r) ranks_[r].weights = of.ranks_[r].weights;
}

template <class Value>
layer_experts<Value> layer_experts<Value>::sharing_weights(int num_sms) const {
  return {*this, num_sms};
}

template <class Value>
expert_weights layer_experts<Value>::weights_for(int rank) const {
  const weights_of_rank& own = weights(rank);
  expert_weights w{
      own.gate.values.data(), own.up.values.data(),
      own.down.values.data(), experts_of_rank(shape_.experts, static_cast<int>(ranks_.size()), rank).count,
      shape_.hidden,          shape_.intermediate,
      shape_.weights};
  w.num_sms = num_sms_;
  if (shape_.weights == weight_format::bf16) return w;
  w.gate_scales = own.gate.scales->data();
  w.up_scales = own.up.scales->data();
  w.down_scales = own.down.scales->data();
  return w;
}

/// Memory is taken when rows are known for which there is too little: never while calls are captured, as a round is run before.
template <class Value>
void layer_experts<Value>::enqueue(int rank, const received_tokens& rows, stream_ref stream) {
  const world& w = worlds_[static_cast<std::size_t>(rank)];
  rank_memory& own = ranks_[static_cast<std::size_t>(rank)];
  const expert_weights weights = weights_for(rank);
  const std::size_t values = static_cast<std::size_t>(rows.max_rows) * static_cast<std::size_t>(rows.hidden),
                    scratch = expert_mlp_scratch_bytes(weights, rows, w.device());
  if (own.output.size() < values) own.output = {w, values, of_layer_rows};
  if (own.scratch.size() < scratch) own.scratch = {w, scratch, of_layer_rows};
  expert_mlp(w, weights, rows, own.output.data(), own.scratch.size() > 0 ? own.scratch.data() : nullptr,
             stream);
}

template class layer_experts<bfloat16>;
template class layer_experts<float8_e4m3>;

}  // namespace baton::cli
