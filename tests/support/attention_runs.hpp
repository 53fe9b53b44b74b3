#pragma once
// The attention kernel on the CPU machine: the kernel that GPUs run, with any context that has its verbs.
#include <string>
#include <vector>

#include "base/constant.hpp"
#include "kernels/attention/instances.hpp"
#include "kernels/attention/kernel.hpp"
#include "sim/context.hpp"
#include "sim/tensor_map.hpp"
#include "tests/support/attention_case.hpp"
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

template <class Value>
attention_kernels::operands<Value> operands_of(const attention_case<Value>& c, attention_outputs<Value>& to) {
  const attention_shape& s = c.shape;
  attention_kernels::operands<Value> asked;
  asked.q = c.q.data(), asked.k = c.k.data(), asked.v = c.v.data();
  asked.out = to.out.data(), asked.lse = to.lse.data();
  asked.sinks = s.sinks ? c.sinks.data() : nullptr;
  asked.cu_seqlens_q = c.cu_q.data(), asked.cu_seqlens_k = c.cu_k.data();
  asked.batch = s.batch();
  asked.q_len = *std::max_element(s.q_lens.begin(), s.q_lens.end());
  asked.k_len = *std::max_element(s.k_lens.begin(), s.k_lens.end());
  asked.total_q = c.total_q(), asked.total_k = c.total_k();
  asked.heads = s.heads, asked.kv_heads = s.kv_heads, asked.head_dim = s.head_dim;
  asked.q_row = asked.out_row = std::int64_t{s.heads} * s.head_dim;
  asked.k_row = asked.v_row = std::int64_t{s.kv_heads} * s.head_dim;
  asked.kv_head_step = s.head_dim;
  asked.sees = {s.options.window_left, s.options.causal ? 0 : s.options.window_right};
  asked.scale = s.scale();
  asked.softcap = s.options.softcap;
  return asked;
}

/// What the kernel writes, over bytes of which every bit is set.
template <attention_kernels::config C, class Context = sim::context, class Value>
attention_outputs<Value> run_attention(const attention_case<Value>& c, const sim::options& how,
                                       wait_limits limits = {.deadline_ns = 1'000'000}) {
  attention_outputs<Value> made{std::vector<Value>(c.q.size()),
                                std::vector<float>(static_cast<std::size_t>(c.shape.heads * c.total_q()))};
  std::fill(made.out.begin(), made.out.end(), Value::from_bits(0xffff));
  std::memset(static_cast<void*>(made.lse.data()), 0xff, made.lse.size() * sizeof(float));
  const auto p = attention_kernels::params_of<C>(
      operands_of(c, made), [](const tensor_boxes& boxes) { return sim::make_box_map(boxes); });
  sim::machine machine{1, how};
  const sim::grid grid{.blocks = p.order.blocks * p.order.all_heads * C.blocks(),
                       .warps = attention_kernels::num_warps,
                       .shared_bytes = attention_kernels::block_plan<C>{}.bytes,
                       .limits = limits,
                       .cluster = C.blocks()};
  machine.launch(0, grid, [&](sim::context& base) {
    Context x{base};
    attention_kernels::attention_kernel<constant<C>>::run(x, p);
  });
  machine.run(0);
  machine.host(0, [] {});  // what the kernel wrote reaches memory
  machine.run(0);
  return made;
}

}  // namespace baton::test
