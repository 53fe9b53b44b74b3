// Experts with biases, another gate and router weights on a GPU, against double precision.
#include <vector>

#include "baton/device_buffer.hpp"
#include "tests/gpu/gpu_case.hpp"
#include "tests/support/expert_bias_case.hpp"

namespace baton {
namespace {

using test::biased_experts;

class expert_bias_gpu : public test::gpu_case {};

/// All of it in device memory.
template <class Value>
std::vector<bfloat16> on_the_gpu(const biased_experts<Value>& of) {
  const auto worlds = world::local(1, device_kind::cuda);
  const world& w = worlds[0];
  const device_buffer<Value> x{w, of.x}, gate{w, of.gate}, up{w, of.up}, down{w, of.down};
  const device_buffer<bfloat16> gate_bias{w, of.gate_bias}, up_bias{w, of.up_bias},
      down_bias{w, of.down_bias};
  const device_buffer<float> row_weights{w, of.row_weights}, ones{w, of.ones};
  const device_buffer<std::int32_t> counts{w, of.counts}, offsets{w, of.offsets};
  expert_weights weights = of.weights();
  weights.gate = gate.data();
  weights.up = up.data();
  weights.down = down.data();
  weights.gate_bias = gate_bias.data();
  weights.up_bias = up_bias.data();
  weights.down_bias = down_bias.data();
  received_tokens rows = of.rows();
  rows.tokens = x.data();
  rows.row_offsets = offsets.data();
  rows.row_counts = counts.data();
  rows.row_weights = row_weights.data();
  if (of.is_fp8) {
    weights.gate_scales = weights.up_scales = weights.down_scales = ones.data();
    rows.scales = ones.data();
  }
  device_buffer<std::byte> scratch{w, expert_mlp_scratch_bytes(weights, rows, device_kind::cuda)};
  device_buffer<bfloat16> out{w, std::vector<bfloat16>(of.max_rows * of.hidden, bfloat16{of.before})};
  expert_mlp(w, weights, rows, out.data(), scratch.data());
  return out.to_host();
}

/// Of e4m3 tensor cores keep 13 bits below the largest term of the 33 that they add at a time.
TEST_F(expert_bias_gpu, biases_another_gate_and_router_weights_are_applied) {
  for (const gating how : {gating::silu, gating::clamped}) {
    const biased_experts<bfloat16> experts{how};
    EXPECT_EQ(experts.wrong(on_the_gpu(experts)), "") << name(how);
    const biased_experts<float8_e4m3> in_fp8{how};
    EXPECT_EQ(in_fp8.wrong(on_the_gpu(in_fp8), 33 * 0x1p-13 + in_fp8.of_fp32), "") << name(how);
  }
}

}  // namespace
}  // namespace baton
