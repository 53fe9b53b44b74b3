#include "kernels/attention/arguments.hpp"

#include <fmt/format.h>

#include <cmath>

#include "baton/error.hpp"
#include "kernels/call_arguments.hpp"

namespace baton::attention_kernels {
namespace {

constexpr int most_rows = 1 << 28, most_sequences = 1 << 20, most_heads = 1 << 16, most_group = 16,
              most_dim = 512, vector_values = 8;
// Values: eight rows of two bytes each stay within the 2^40 bytes that the copy engine steps.
constexpr std::int64_t most_stride = std::int64_t{1} << 35;
constexpr std::uintptr_t vector_bytes = 16, scratch_alignment = 256;

/// A call by name, and what it asks of its numbers.
struct asked_by {
  const char* call;

  void within(const char* name, std::int64_t value, std::int64_t least, std::int64_t most) const {
    if (value < least || value > most)
      refuse_call(call, "{} is {}; it must be from {} to {}", name, value, least, most);
  }

  void heads(int heads, int kv_heads, int head_dim) const {
    within("kv_heads", kv_heads, 1, most_heads);
    within("heads", heads, 1, most_heads);
    if (heads % kv_heads != 0 || heads / kv_heads > most_group)
      refuse_call(call, "heads is {} and kv_heads is {}; heads must be kv_heads times 1 to {}", heads,
                  kv_heads, most_group);
    if (head_dim < vector_values || head_dim > most_dim || head_dim % vector_values != 0)
      refuse_call(
          call,
          "head_dim is {}; it must be a multiple of {} from {} to {}; pad heads with zeros and give a scale",
          head_dim, vector_values, vector_values, most_dim);
  }

  void options(const attention_options& o) const {
    if (o.scale && !std::isfinite(*o.scale))
      refuse_call(call, "options.scale is {}; it must be finite", *o.scale);
    if (!(o.softcap >= 0) || std::isinf(o.softcap))
      refuse_call(call, "options.softcap is {}; it must be positive, or 0 for none", o.softcap);
    within("options.window_left", o.window_left, -1, most_rows);
    within("options.window_right", o.window_right, -1, most_rows);
    within("options.num_sms", o.num_sms, 0, most_sequences);
  }

  /// From one row or page to the next: what was said, or as much as it needs. `vector_values`: what 16 bytes have.
  std::int64_t step(const char* name, std::int64_t said, std::int64_t least,
                    int vector_values = attention_kernels::vector_values) const {
    if (said == 0 && least > most_stride)
      refuse_call(call, "{} is 0, which here means {}; it must be up to {}", name, least, most_stride);
    if (said == 0) return least;
    if (said < least || said > most_stride || said % vector_values != 0)
      refuse_call(call, "{} is {}; it must be 0, or a multiple of {} from {} on to {}", name, said,
                  vector_values, least, most_stride);
    return said;
  }

  /// Sequences of equal lengths fill whole tensors.
  void equal_lengths(const char* total_name, int total, const char* length_name, int batch,
                     int length) const {
    if (std::int64_t{batch} * length != total)
      refuse_call(call, "{} is {}; without cu_seqlens it must be batch * {} = {} * {}", total_name, total,
                  length_name, batch, length);
  }
};

/// What both problems say alike.
template <class Value, class Cache, class Problem>
operands<Value, Cache> common_operands(const asked_by& by, const Problem& p) {
  by.heads(p.heads, p.kv_heads, p.head_dim);
  by.options(p.options);
  by.within("batch", p.batch, 0, most_sequences);
  const std::int64_t row = std::int64_t{p.heads} * p.head_dim;
  operands<Value, Cache> o;
  o.q = p.q;
  o.out = p.out;
  o.lse = p.lse;
  o.sinks = p.options.sinks;
  o.cu_seqlens_q = p.cu_seqlens_q;
  o.batch = p.batch;
  o.heads = p.heads;
  o.kv_heads = p.kv_heads;
  o.head_dim = p.head_dim;
  o.q_row = by.step("q_stride", p.q_stride, row);
  o.out_row = by.step("out_stride", p.out_stride, row);
  o.sees = {p.options.window_left, p.options.causal ? 0 : p.options.window_right};
  o.scale = p.options.scale.value_or(1.0f / std::sqrt(static_cast<float>(p.head_dim)));
  o.softcap = p.options.softcap;
  o.num_sms = p.options.num_sms;
  return o;
}

struct alignment_check {
  const char* call;

  void operator()(const char* name, const void* at, std::uintptr_t alignment) const {
    require_pointer(call, name, at, alignment);
  }
  void if_given(const char* name, const void* at, std::uintptr_t alignment) const {
    if (at != nullptr) (*this)(name, at, alignment);
  }
};

}  // namespace

template <class Value>
operands<Value> operands_of(const varlen_attention_problem<Value>& p) {
  const asked_by by{"varlen_attention"};
  auto o = common_operands<Value, Value>(by, p);
  by.within("max_seqlen_q", p.max_seqlen_q, 0, most_rows);
  by.within("max_seqlen_k", p.max_seqlen_k, 0, most_rows);
  by.within("total_q", p.total_q, 0, most_rows);
  by.within("total_k", p.total_k, 0, most_rows);
  if (p.cu_seqlens_q == nullptr)
    by.equal_lengths("total_q", p.total_q, "max_seqlen_q", p.batch, p.max_seqlen_q);
  if (p.cu_seqlens_k == nullptr)
    by.equal_lengths("total_k", p.total_k, "max_seqlen_k", p.batch, p.max_seqlen_k);
  const std::int64_t row = std::int64_t{p.kv_heads} * p.head_dim;
  o.k = p.k;
  o.v = p.v;
  o.cu_seqlens_k = p.cu_seqlens_k;
  o.q_len = p.max_seqlen_q;
  o.k_len = p.max_seqlen_k;
  o.total_q = p.total_q;
  o.total_k = p.total_k;
  o.k_row = by.step("k_stride", p.k_stride, row);
  o.v_row = by.step("v_stride", p.v_stride, row);
  o.kv_head_step = p.head_dim;
  return o;
}

template <class Value, class Cache>
operands<Value, Cache> operands_of(const paged_attention_problem<Value, Cache>& p) {
  const asked_by by{"paged_attention"};
  auto o = common_operands<Value, Cache>(by, p);
  by.within("q_len", p.q_len, 0, most_rows);
  by.within("num_pages", p.num_pages, 0, most_rows);
  by.within("page_size", p.page_size, 1, most_rows);
  by.within("max_pages", p.max_pages, 0, most_rows / p.page_size);
  if (p.layout != kv_layout::nhd && p.layout != kv_layout::hnd)
    refuse_call(by.call, "layout is {}, which is no kv_layout", static_cast<int>(p.layout));
  if (p.cu_seqlens_q != nullptr)
    by.within("total_q", p.total_q, 0, most_rows);
  else
    by.within("batch * q_len", std::int64_t{p.batch} * p.q_len, 0, most_rows);
  constexpr int cache_vector = vector_bytes / sizeof(Cache);
  if (p.head_dim % cache_vector != 0)  // of 16 bits common_operands has seen to it
    refuse_call(by.call, "head_dim is {}; with a cache of e4m3 it must be a multiple of {}", p.head_dim,
                cache_vector);
  if (!o.is_e4m3 && (p.k_descale != nullptr || p.v_descale != nullptr)) {
    refuse_call(by.call, "{} is given; only caches of e4m3 have one: leave it null",
                p.k_descale != nullptr ? "k_descale" : "v_descale");
  }
  o.k_descale = p.k_descale;
  o.v_descale = p.v_descale;
  o.descale_by_head = p.descale_by_head;
  const std::int64_t row = std::int64_t{p.kv_heads} * p.head_dim;
  const bool nhd = p.layout == kv_layout::nhd;
  o.k = p.k_cache;
  o.v = p.v_cache;
  o.seqlens_k = p.seqlens;
  o.page_table = p.page_table;
  o.q_len = p.q_len;
  o.k_len = p.max_pages * p.page_size;
  o.total_q = p.cu_seqlens_q != nullptr ? p.total_q : p.batch * p.q_len;
  o.k_row = o.v_row = nhd ? row : p.head_dim;
  o.kv_head_step = nhd ? p.head_dim : std::int64_t{p.page_size} * p.head_dim;
  o.page_step = by.step("page_stride", p.page_stride, row * p.page_size, cache_vector);
  o.num_pages = p.num_pages;
  o.page_size = p.page_size;
  o.max_pages = p.max_pages;
  o.paged = true;
  o.layout = p.layout;
  o.lse_by_sequence = p.cu_seqlens_q == nullptr;
  return o;
}

template <class Asked>
void require_memory(const Asked& o, const void* scratch, std::size_t scratch_bytes) {
  const alignment_check aligned{o.call()};
  constexpr std::uintptr_t ints = alignof(std::int32_t), floats = alignof(float);
  aligned("q", o.q, vector_bytes);
  aligned("out", o.out, vector_bytes);
  aligned.if_given("lse", o.lse, floats);
  aligned.if_given("options.sinks", o.sinks, floats);
  aligned.if_given("k_descale", o.k_descale, floats);
  aligned.if_given("v_descale", o.v_descale, floats);
  aligned.if_given("cu_seqlens_q", o.cu_seqlens_q, ints);
  aligned.if_given("cu_seqlens_k", o.cu_seqlens_k, ints);
  if (scratch_bytes > 0) aligned("scratch", scratch, scratch_alignment);
  if (o.paged) {
    aligned("seqlens", o.seqlens_k, ints);
    if (o.num_pages == 0 || o.max_pages == 0) return;
    aligned("page_table", o.page_table, ints);
    aligned("k_cache", o.k, vector_bytes);
    aligned("v_cache", o.v, vector_bytes);
  } else if (o.total_k > 0) {
    aligned("k", o.k, vector_bytes);
    aligned("v", o.v, vector_bytes);
  }
}

template operands<bfloat16> operands_of(const varlen_attention_problem<bfloat16>&);
template operands<float16> operands_of(const varlen_attention_problem<float16>&);
template operands<bfloat16> operands_of(const paged_attention_problem<bfloat16>&);
template operands<float16> operands_of(const paged_attention_problem<float16>&);
template operands<bfloat16, float8_e4m3> operands_of(const paged_attention_problem<bfloat16, float8_e4m3>&);
template operands<float16, float8_e4m3> operands_of(const paged_attention_problem<float16, float8_e4m3>&);
template void require_memory(const operands<bfloat16>&, const void*, std::size_t);
template void require_memory(const operands<float16>&, const void*, std::size_t);
template void require_memory(const operands<bfloat16, float8_e4m3>&, const void*, std::size_t);
template void require_memory(const operands<float16, float8_e4m3>&, const void*, std::size_t);

}  // namespace baton::attention_kernels
