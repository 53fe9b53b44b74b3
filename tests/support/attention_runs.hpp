#pragma once
// The attention kernel on the CPU machine: the kernel that GPUs run, with any context that has its verbs.
#include <string>
#include <vector>

#include "base/constant.hpp"
#include "kernels/attention/arguments.hpp"
#include "kernels/attention/instances.hpp"
#include "kernels/attention/kernel.hpp"
#include "sim/context.hpp"
#include "sim/tensor_map.hpp"
#include "tests/support/attention_case.hpp"
#include "tests/support/machine_runs.hpp"
#include "tests/support/product_schedules.hpp"

namespace baton::test {

inline constexpr attention_kernels::config attention_of_512 =
                                               attention_kernels::make_config(512, false, false),
                                           attention_of_256 =
                                               attention_kernels::make_config(256, false, false);

template <class Value>
struct attention_outputs {
  std::vector<Value> out;
  std::vector<float> lse;
};

/// The case, as users ask for it.
template <class Value>
varlen_attention_problem<Value> problem_of(const attention_case<Value>& c, attention_outputs<Value>& to) {
  const attention_shape& s = c.shape;
  varlen_attention_problem<Value> p{.q = c.q.data(),
                                    .k = c.k.data(),
                                    .v = c.v.data(),
                                    .out = to.out.data(),
                                    .lse = to.lse.data(),
                                    .cu_seqlens_q = c.cu_q.data(),
                                    .cu_seqlens_k = c.cu_k.data(),
                                    .batch = s.batch(),
                                    .max_seqlen_q = *std::max_element(s.q_lens.begin(), s.q_lens.end()),
                                    .max_seqlen_k = *std::max_element(s.k_lens.begin(), s.k_lens.end()),
                                    .total_q = c.total_q(),
                                    .total_k = c.total_k(),
                                    .heads = s.heads,
                                    .kv_heads = s.kv_heads,
                                    .head_dim = s.head_dim,
                                    .options = s.options};
  if (s.sinks) p.options.sinks = c.sinks.data();
  return p;
}

/// What the kernel writes, over bytes of which every bit is set.
template <attention_kernels::config C, class Context = sim::context, class Value>
attention_outputs<Value> run_attention(const attention_case<Value>& c, const sim::options& how,
                                       wait_limits limits = {.deadline_ns = 1'000'000}) {
  attention_outputs<Value> made{std::vector<Value>(c.q.size()),
                                std::vector<float>(static_cast<std::size_t>(c.shape.heads * c.total_q()))};
  std::fill(made.out.begin(), made.out.end(), Value::from_bits(0xffff));
  std::memset(static_cast<void*>(made.lse.data()), 0xff, made.lse.size() * sizeof(float));
  const auto p =
      attention_kernels::params_of<C>(attention_kernels::operands_of(problem_of(c, made)),
                                      [](const tensor_boxes& boxes) { return sim::make_box_map(boxes); });
  const sim::grid grid{.blocks = p.order.blocks * p.order.all_heads * C.blocks(),
                       .warps = attention_kernels::num_warps,
                       .shared_bytes = attention_kernels::block_plan<C>{}.bytes,
                       .limits = limits,
                       .cluster = C.blocks()};
  run_on_machine<attention_kernels::attention_kernel<constant<C>>, Context>(how, grid, p);
  return made;
}

}  // namespace baton::test
