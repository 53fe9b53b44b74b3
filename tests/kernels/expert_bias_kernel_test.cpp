// Experts with biases, another gate and router weights: the two products of groups that they are on GPUs, on the CPU machine,
// against double precision.
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
void expect_right_on_the_machine(gating how) {
  const biased_experts<Value> experts{how};
  EXPECT_EQ(experts.wrong(on_the_machine(experts, experts.experts, {})), "");
  const sim::options any{.order = sim::schedule::random, .seed = 5, .delay_stores = true, .faults = {}};
  EXPECT_EQ(experts.wrong(on_the_machine(experts, 1, any)), "");
}

TEST(expert_bias_kernel, biases_another_gate_and_router_weights_are_applied_in_the_products_of_gpus) {
  for (const gating how : {gating::silu, gating::clamped}) {
    expect_right_on_the_machine<bfloat16>(how);
    expect_right_on_the_machine<float8_e4m3>(how);
  }
}

}  // namespace
}  // namespace baton
