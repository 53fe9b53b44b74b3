#pragma once
// The attention kernel on the CPU machine: the kernel that GPUs run, with any context that has its verbs.
#include <bit>
#include <vector>

#include "base/constant.hpp"
#include "kernels/attention/arguments.hpp"
#include "kernels/attention/instances.hpp"
#include "kernels/attention/kernel.hpp"
#include "runtime/tensor_map.hpp"
#include "sim/context.hpp"
#include "tests/support/attention_call.hpp"
#include "tests/support/machine_runs.hpp"
#include "tests/support/product_schedules.hpp"

namespace baton::test {

inline constexpr attention_kernels::config attention_of_512 =
                                               attention_kernels::make_config(512, false, false),
                                           attention_of_256 =
                                               attention_kernels::make_config(256, false, false),
                                           attention_of_128 =
                                               attention_kernels::make_config(128, false, false);

/// What both calls take alike; outputs with every bit set.
template <class Problem, class Value>
void give_to(Problem& p, const attention_case<Value>& c, attention_result<Value>& to) {
  to = {std::vector<Value>(c.q.size(), Value::from_bits(0xffff)),
        std::vector<float>(static_cast<std::size_t>(c.shape.heads * c.total_q()),
                           std::bit_cast<float>(0xffffffffu))};
  p.q = c.q.data();
  p.out = to.out.data();
  p.lse = to.lse.data();
  p.batch = c.shape.batch();
  p.total_q = c.total_q();
  p.heads = c.shape.heads;
  p.kv_heads = c.shape.kv_heads;
  p.head_dim = c.shape.head_dim;
  p.options = c.shape.options;
  if (c.shape.sinks) p.options.sinks = c.sinks.data();
}

/// The kernel, on a machine of its own.
template <attention_kernels::config C, class Context, class Problem>
void run_kernel(const Problem& problem, const sim::options& how, wait_limits limits) {
  static const world cpu = world::local(1, device_kind::cpu)[0];
  const auto p =
      attention_kernels::params_of<C>(attention_kernels::operands_of(problem),
                                      [](const tensor_boxes& boxes) { return make_tensor_map(cpu, boxes); });
  const sim::grid grid{.blocks = p.order.blocks * p.order.all_heads * C.blocks(),
                       .warps = attention_kernels::num_warps,
                       .shared_bytes = attention_kernels::block_plan<C>{}.bytes,
                       .limits = limits,
                       .cluster = C.blocks()};
  run_on_machine<attention_kernels::attention_kernel<constant<C>>, Context>(how, grid, p);
}

/// Of keys in rows, as users ask for it.
template <attention_kernels::config C, class Context = sim::context, class Value>
attention_result<Value> run_attention(const attention_case<Value>& c, const sim::options& how,
                                      wait_limits limits = {.deadline_ns = 1'000'000}) {
  attention_result<Value> made;
  varlen_attention_problem<Value> p;
  give_to(p, c, made);
  p.k = c.k.data();
  p.v = c.v.data();
  p.cu_seqlens_q = c.cu_q.data();
  p.cu_seqlens_k = c.cu_k.data();
  p.max_seqlen_q = attention_detail::longest(c.shape.q_lens);
  p.max_seqlen_k = attention_detail::longest(c.shape.k_lens);
  p.total_k = c.total_k();
  run_kernel<C, Context>(p, how, limits);
  return made;
}

/// Of keys in pages; its lse by head.
template <attention_kernels::config C, class Context = sim::context, class Value>
attention_result<Value> run_paged_attention(const attention_case<Value>& c, const paged_keys<Value>& keys,
                                            const sim::options& how,
                                            wait_limits limits = {.deadline_ns = 1'000'000}) {
  attention_result<Value> made;
  paged_attention_problem<Value> p;
  give_to(p, c, made);
  give_sizes_to(p, keys);
  p.k_cache = keys.k.data();
  p.v_cache = keys.v.data();
  p.page_table = keys.page_table.data();
  p.seqlens = keys.seqlens.data();
  p.q_len = attention_detail::longest(c.shape.q_lens);
  if (!has_equal_rows(c.shape)) p.cu_seqlens_q = c.cu_q.data();
  run_kernel<C, Context>(p, how, limits);
  if (p.cu_seqlens_q == nullptr) made.lse = lse_by_head(made.lse, c.shape);
  return made;
}

}  // namespace baton::test
