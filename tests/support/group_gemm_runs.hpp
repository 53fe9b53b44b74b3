#pragma once
// The product of groups on the CPU machine: the kernel that GPUs run, with any context that has its verbs.
#include <vector>

#include "base/constant.hpp"
#include "kernels/gemm/kernel.hpp"
#include "sim/context.hpp"
#include "sim/tensor_map.hpp"
#include "tests/support/gemm_case.hpp"

namespace baton::test {

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
  sim::machine machine{1, run.how};
  const int cluster = C.split ? run.splits : C.cluster;
  const sim::grid grid{.blocks = run.clusters * cluster,
                       .warps = gemm_kernels::num_warps,
                       .shared_bytes = gemm_kernels::block_plan<C>{}.bytes,
                       .limits = run.limits,
                       .cluster = cluster};
  machine.launch(0, grid, [&](sim::context& base) {
    Context x{base};
    gemm_kernels::gemm_kernel<constant<C>>::run(x, p);
  });
  machine.run(0);
  machine.host(0, [] {});  // what the kernel wrote reaches memory
  machine.run(0);
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
