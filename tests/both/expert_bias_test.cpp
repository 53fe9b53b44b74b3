// Experts with biases, another gate and router weights as users call them on the CPU, against double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "baton/expert_mlp.hpp"
#include "tests/support/expert_bias_case.hpp"

namespace baton {
namespace {

using test::biased_experts;

template <class Value>
std::vector<bfloat16> on_the_cpu(const expert_weights& w, const received_tokens& r) {
  const auto worlds = world::local(1, device_kind::cpu);
  using of = biased_experts<Value>;
  std::vector<bfloat16> out(of::max_rows * of::hidden, bfloat16{of::before});
  expert_mlp(worlds[0], w, r, out.data(), nullptr);
  worlds[0].synchronize();
  return out;
}

template <class Value>
void expect_right_on_the_cpu(gating how) {
  const biased_experts<Value> experts{how};
  EXPECT_EQ(experts.wrong(on_the_cpu<Value>(experts.weights(), experts.rows())), "");
}

TEST(expert_bias, biases_another_gate_and_router_weights_are_applied_on_the_cpu) {
  for (const gating how : {gating::silu, gating::clamped}) {
    expect_right_on_the_cpu<bfloat16>(how);
    expect_right_on_the_cpu<float8_e4m3>(how);
  }
}

TEST(expert_bias, weights_of_one_change_no_bit_and_no_biases_are_biases_of_zero) {
  biased_experts<bfloat16> with{gating::silu};
  with.row_weights = with.ones;
  for (auto* biases : {&with.gate_bias, &with.up_bias, &with.down_bias})
    std::fill(biases->begin(), biases->end(), bfloat16{0.0f});
  expert_weights none = with.weights();
  none.gate_bias = none.up_bias = none.down_bias = nullptr;
  received_tokens rows = with.rows();
  rows.row_weights = nullptr;
  EXPECT_EQ(on_the_cpu<bfloat16>(none, rows), on_the_cpu<bfloat16>(with.weights(), with.rows()));
}

}  // namespace
}  // namespace baton
