#pragma once
// The product of groups on the CPU machine: the kernel that GPUs run, with any context that has its verbs.
#include <vector>

#include "base/constant.hpp"
#include "kernels/gemm/kernel.hpp"
#include "sim/context.hpp"
#include "sim/tensor_map.hpp"
#include "tests/support/gemm_case.hpp"
#include "tests/support/grouped_gemm_case.hpp"
#include "tests/support/machine_runs.hpp"
#include "tests/support/product_schedules.hpp"

namespace baton::test {

/// A case's groups as the kernel takes them.
template <class Out, class In, class Case>
void give_groups(gemm_kernels::operands<Out, In>& p, const Case& g) {
  p.counts = g.counts.data();
  p.firsts = g.firsts.data();
  p.groups = static_cast<int>(g.counts.size());
}
template <class Value>
gemm_kernels::operands<Value, Value> operands_of(const typed_grouped_case<Value>& g, Value* c) {
  gemm_kernels::operands<Value, Value> p{
      .a = g.a.data(), .b = g.b.data(), .c = c, .m = g.max_rows, .n = g.n, .k = g.k};
  give_groups(p, g);
  return p;
}

struct gemm_run {
  sim::options how{};
  int clusters = 2;
  int splits = 1;  // blocks of a cluster that share out k, where the kernel does
  float alpha = 1, beta = 0;
  wait_limits limits{.deadline_ns = 1'000'000};
};

/// C of `problem` is C before and after.
template <gemm_kernels::config C, class Context = sim::context, class Out, class In>
void run_group_gemm(const gemm_kernels::operands<Out, In>& problem, const gemm_run& run) {
  const auto p = gemm_kernels::params_of<C>(problem, sim::make_tensor_map);
  const int cluster = C.split ? run.splits : C.cluster;
  const sim::grid grid{.blocks = run.clusters * cluster,
                       .warps = gemm_kernels::num_warps,
                       .shared_bytes = gemm_kernels::block_plan<C>{}.bytes,
                       .limits = run.limits,
                       .cluster = cluster};
  run_on_machine<gemm_kernels::gemm_kernel<constant<C>>, Context>(run.how, grid, p);
}

/// `c` is C before and after.
template <gemm_kernels::config C, class Context = sim::context, class Out, class In>
void run_group_gemm(const typed_gemm_case<In>& g, const gemm_run& run, std::vector<Out>& c) {
  run_group_gemm<C, Context>(gemm_kernels::operands<Out, In>{.a = g.a.data(),
                                                             .b = g.b.data(),
                                                             .c = c.data(),
                                                             .m = g.size.m,
                                                             .n = g.size.n,
                                                             .k = g.size.k,
                                                             .alpha = run.alpha,
                                                             .beta = run.beta},
                             run);
}

}  // namespace baton::test
