// Experts with biases, another gate and router weights: as users call them on the CPU, and as the two products of groups that
// they are on GPUs run on the CPU machine, both against double precision.
#include <algorithm>
#include <vector>

#include "baton/expert_mlp.hpp"
#include "kernels/expert_mlp/products.hpp"
#include "kernels/gemm/instances.hpp"
#include "tests/support/expert_bias_case.hpp"
#include "tests/support/group_gemm_runs.hpp"

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
constexpr gemm_kernels::config down_config = gemm_kernels::group_config<Value, false, true>;
template <>
constexpr gemm_kernels::config down_config<float8_e4m3> = gemm_kernels::scaled_group_config<false, true>;

/// What a GPU does: the experts before `first` and those from it on, as if there were too many for one launch.
template <class Value>
std::vector<bfloat16> on_the_machine(const biased_experts<Value>& of, int first, const sim::options& how) {
  using expert_mlp_kernels::some_experts;
  std::vector<bfloat16> out(of.max_rows * of.hidden, bfloat16{of.before});
  std::vector<Value> inner(of.max_rows * of.intermediate);
  std::vector<float> inner_scales(of.max_rows);
  const expert_weights w = of.weights();
  const received_tokens r = of.rows();
  for (const some_experts& some : {some_experts{0, first}, some_experts{first, of.experts - first}}) {
    if (some.count == 0) continue;
    test::run_group_gemm<gemm_kernels::gated_config<biased_experts<Value>::is_fp8, false, true>>(
        expert_mlp_kernels::gate_and_up<Value>(w, r, some, inner.data(), inner_scales.data()), {.how = how});
    test::run_group_gemm<down_config<Value>>(
        expert_mlp_kernels::down<Value>(w, r, some, inner.data(), inner_scales.data(), out.data()),
        {.how = how});
  }
  return out;
}

template <class Value>
void expect_right_everywhere(gating how) {
  const biased_experts<Value> experts{how};
  EXPECT_EQ(experts.wrong(on_the_cpu<Value>(experts.weights(), experts.rows())), "");
  EXPECT_EQ(experts.wrong(on_the_machine(experts, experts.experts, {})), "");
  const sim::options any{.order = sim::schedule::random, .seed = 5, .delay_stores = true, .faults = {}};
  EXPECT_EQ(experts.wrong(on_the_machine(experts, 1, any)), "");
}

TEST(expert_bias, biases_another_gate_and_router_weights_are_applied_on_the_cpu_and_in_the_products_of_gpus) {
  for (const gating how : {gating::silu, gating::clamped}) {
    expect_right_everywhere<bfloat16>(how);
    expect_right_everywhere<float8_e4m3>(how);
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
