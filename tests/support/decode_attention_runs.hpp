#pragma once
// Attention of few rows on the CPU machine: the kernel that GPUs run, with any context that has its verbs.
#include <vector>

#include "base/constant.hpp"
#include "kernels/attention/arguments.hpp"
#include "kernels/decode_attention/instances.hpp"
#include "kernels/decode_attention/kernel.hpp"
#include "sim/context.hpp"
#include "sim/tensor_map.hpp"
#include "tests/support/e4m3_cache.hpp"
#include "tests/support/machine_runs.hpp"
#include "tests/support/product_schedules.hpp"

namespace baton::test {

inline constexpr decode_attention::config decode_of_512 = decode_attention::make_config(512, 64, false),
                                          decode_of_256 = decode_attention::make_config(256, 64, false);

/// The configuration that a problem with up to 16 rows that share a head of K takes instead.
constexpr decode_attention::config of_few_rows(decode_attention::config c) {
  return decode_attention::make_config(c.head_dim, 16, c.fp16);
}
/// The same for a cache of e4m3.
constexpr decode_attention::config of_e4m3(decode_attention::config c) {
  return decode_attention::make_config(c.head_dim, 16, c.fp16, true);
}

/// How the cache lies, and how the work is dealt out.
struct decode_run {
  int page_size = 16;
  kv_layout layout = kv_layout::nhd;
  int team = 2, teams = 2;  // blocks that share items' keys, and how many of those
  int short_units = 1;      // items of more than 128 keys are cut
  int page_gap = 0;         // between pages, in heads of a row
  bool equal_rows = false;  // no cu_seqlens_q: lse by sequence
  cache_factors factors{};  // of e4m3
};

/// The case in pages, as users ask for it.
template <class Value, class Cache>
paged_attention_problem<Value, Cache> decode_problem_of(const attention_case<Value>& c,
                                                        const paged_keys<Cache>& keys,
                                                        attention_result<Value>& to) {
  const attention_shape& s = c.shape;
  paged_attention_problem<Value, Cache> p{.q = c.q.data(),
                                          .k_cache = keys.k.data(),
                                          .v_cache = keys.v.data(),
                                          .out = to.out.data(),
                                          .lse = to.lse.data(),
                                          .page_table = keys.page_table.data(),
                                          .seqlens = keys.seqlens.data(),
                                          .batch = s.batch(),
                                          .q_len = attention_detail::longest(s.q_lens),
                                          .heads = s.heads,
                                          .kv_heads = s.kv_heads,
                                          .head_dim = s.head_dim,
                                          .num_pages = keys.num_pages,
                                          .page_size = keys.page_size,
                                          .max_pages = keys.max_pages,
                                          .layout = keys.layout,
                                          .page_stride = static_cast<std::int64_t>(keys.page_values),
                                          .cu_seqlens_q = c.cu_q.data(),
                                          .total_q = c.total_q(),
                                          .options = s.options};
  if (s.sinks) p.options.sinks = c.sinks.data();
  return p;
}

/// What the kernel writes, over bytes of which every bit is set. `scratch`: what the call has of it, zeros at first.
template <decode_attention::config C, class Context = sim::context, class Value>
attention_result<Value> run_decode(const attention_case<Value>& c, const decode_run& run,
                                   const sim::options& how, std::vector<std::byte>& scratch,
                                   wait_limits limits = {.deadline_ns = 1'000'000}) {
  attention_result<Value> made{std::vector<Value>(c.q.size()),
                               std::vector<float>(static_cast<std::size_t>(c.shape.heads * c.total_q()))};
  std::fill(made.out.begin(), made.out.end(), Value::from_bits(0xffff));
  std::memset(static_cast<void*>(made.lse.data()), 0xff, made.lse.size() * sizeof(float));
  const auto keys = [&] {
    const auto values = pages_of(c, run.page_size, run.layout, 3, {.page = run.page_gap});
    if constexpr (C.e4m3)
      return as_e4m3(values, c.shape, run.factors);
    else
      return values;
  }();
  auto problem = decode_problem_of(c, keys, made);
  if constexpr (C.e4m3) {
    problem.k_descale = run.factors.k.empty() ? nullptr : run.factors.k.data();
    problem.v_descale = run.factors.v.empty() ? nullptr : run.factors.v.data();
    problem.descale_by_head = run.factors.by_head();
  }
  if (run.equal_rows) problem.cu_seqlens_q = nullptr;
  const auto asked = attention_kernels::operands_of(problem);
  const std::size_t rows =
      static_cast<std::size_t>(align_up(decode_attention::block_tokens(asked) * asked.group(), 2));
  scratch.resize(std::max(scratch.size(), std::size_t{1} << 16) +
                 2 * static_cast<std::size_t>(run.team * run.teams) * rows * (512 * sizeof(float) + 8));
  auto p = decode_attention::params_of<C>(asked, scratch.data(),
                                          [](const tensor_boxes& boxes) { return sim::make_box_map(boxes); });
  auto* const weights = scratch.data() + 4096;
  p.partial_weights = reinterpret_cast<float*>(weights);
  p.partial_rows = reinterpret_cast<float*>(
      weights + align_up(2 * static_cast<std::size_t>(run.team * run.teams) * rows * 8, std::size_t{256}));
  p.short_units = run.short_units;
  const sim::grid grid{.blocks = run.team * run.teams,
                       .warps = decode_attention::num_warps,
                       .shared_bytes = decode_attention::block_plan<C>{}.bytes,
                       .limits = limits,
                       .cluster = run.team};
  run_on_machine<decode_attention::decode_kernel<constant<C>>, Context>(how, grid, p);
  if (run.equal_rows) made.lse = lse_by_head(made.lse, c.shape);
  return made;
}

}  // namespace baton::test
