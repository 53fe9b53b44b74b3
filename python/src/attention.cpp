// Attention on arrays of Python.
#include "baton/attention.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <cstddef>
#include <optional>
#include <string>
#include <tuple>

#include "baton/error.hpp"
#include "ranks.hpp"

namespace baton::python {
namespace {

using window = std::pair<int, int>;
/// scale, causal, window, softcap, num_sms
using choices = std::tuple<std::optional<float>, bool, window, float, int>;

attention_options options_of(const choices& chosen, const float* sinks) {
  const auto& [scale, causal, bounds, softcap, num_sms] = chosen;
  return {.scale = scale,
          .causal = causal,
          .window_left = bounds.first,
          .window_right = bounds.second,
          .softcap = softcap,
          .sinks = sinks,
          .num_sms = num_sms};
}

kv_layout layout_of(const std::string& named) {
  for (const kv_layout l : {kv_layout::nhd, kv_layout::hnd})
    if (named == name(l)) return l;
  throw invalid_argument{"layout: '" + named + "', expected 'nhd' or 'hnd'"};
}

/// What both forms are given.
struct common_arrays {
  array q, k, v, out, lse, cu_seqlens_q, sinks;
};

template <class Value>
const Value* values_of(const array& from) {
  return static_cast<const Value*>(from.data);
}

const float* floats_of(const array& from) {
  return static_cast<const float*>(from.data);
}

const std::int32_t* ints_of(const array& from) {
  return static_cast<const std::int32_t*>(from.data);
}

/// Scratch, if any is needed, of a callable that makes an array of so many bytes; and the call.
template <class Problem, class Call>
void enqueue(const py_world& on, const Problem& problem, const nb::callable& new_scratch,
             std::initializer_list<kept_array> used, stream_ref stream, Call call) {
  const world& rank = on.get();
  const std::size_t bytes = attention_scratch_bytes(rank.device(), problem);
  array scratch;
  if (bytes > 0)
    scratch =
        array_of(new_scratch(bytes + scratch_alignment), {"scratch", {element::uint8}, {-1}, true}, rank);
  on.keep(scratch.memory);
  run(on, used, stream, [&] { call(rank, problem, bytes > 0 ? aligned(scratch.data) : nullptr, stream); });
}

/// Where each sequence begins, and where the last one ends.
array ends_of_sequences(array found, const char* name) {
  if (found.memory.is_valid() && found.shape[0] == 0)
    throw invalid_argument{name + std::string{": expected int32 [batch + 1]; found [0]"}};
  return found;
}

struct varlen_arrays : common_arrays {
  array cu_seqlens_k;
  int max_seqlen_q = 0, max_seqlen_k = 0;
};

template <class Value>
void enqueue_varlen(const py_world& on, const varlen_arrays& given, const choices& chosen,
                    const nb::callable& new_scratch, stream_ref stream) {
  const extents& of_q = given.q.shape;
  varlen_attention_problem<Value> problem{.q = values_of<Value>(given.q),
                                          .k = values_of<Value>(given.k),
                                          .v = values_of<Value>(given.v),
                                          .out = static_cast<Value*>(given.out.data),
                                          .lse = static_cast<float*>(given.lse.data),
                                          .cu_seqlens_q = ints_of(given.cu_seqlens_q),
                                          .cu_seqlens_k = ints_of(given.cu_seqlens_k),
                                          .batch = small(given.cu_seqlens_q.shape[0] - 1),
                                          .max_seqlen_q = given.max_seqlen_q,
                                          .max_seqlen_k = given.max_seqlen_k,
                                          .total_q = small(of_q[0]),
                                          .total_k = small(given.k.shape[0]),
                                          .heads = small(of_q[1]),
                                          .kv_heads = small(given.k.shape[1]),
                                          .head_dim = small(of_q[2]),
                                          .q_stride = given.q.row_stride,
                                          .k_stride = given.k.row_stride,
                                          .v_stride = given.v.row_stride,
                                          .out_stride = given.out.row_stride,
                                          .options = options_of(chosen, floats_of(given.sinks))};
  enqueue(on, problem, new_scratch,
          {given.q.memory, given.k.memory, given.v.memory, given.out.memory, given.lse.memory,
           given.cu_seqlens_q.memory, given.cu_seqlens_k.memory, given.sinks.memory},
          stream, [](const auto&... all) { varlen_attention(all...); });
}

/// `given`: q, k, v, out, lse, cu_seqlens_q, cu_seqlens_k, sinks. `longest`: of q and of k; -1: as many as there are rows.
void varlen(const py_world& on, const nb::tuple& given, const choices& chosen, std::pair<int, int> longest,
            const nb::callable& new_scratch, std::uintptr_t stream_handle) {
  const world& rank = on.get();
  const stream_ref stream = on.stream_of(stream_handle);
  varlen_arrays all;
  all.q = array_of(given[0], {"q", {element::bf16, element::fp16}, {-1, -1, -1}, false, 1}, rank);
  const std::int64_t total_q = all.q.shape[0], heads = all.q.shape[1], head_dim = all.q.shape[2];
  all.k = array_of(given[1], {"k", {all.q.type}, {-1, -1, head_dim}, false, 1}, rank);
  const std::int64_t total_k = all.k.shape[0];
  all.v = array_of(given[2], {"v", {all.q.type}, {total_k, all.k.shape[1], head_dim}, false, 1}, rank);
  all.out = array_of(given[3], {"out", {all.q.type}, {total_q, heads, head_dim}, true, 1}, rank);
  all.lse = optional_array(given[4], {"lse", {element::fp32}, {heads, total_q}, true}, rank);
  all.cu_seqlens_q =
      ends_of_sequences(array_of(given[5], {"cu_seqlens_q", {element::int32}, {-1}}, rank), "cu_seqlens_q");
  all.cu_seqlens_k =
      array_of(given[6], {"cu_seqlens_k", {element::int32}, {all.cu_seqlens_q.shape[0]}}, rank);
  all.sinks = optional_array(given[7], {"sinks", {element::fp32}, {heads}}, rank);
  all.max_seqlen_q = longest.first < 0 ? small(total_q) : longest.first;
  all.max_seqlen_k = longest.second < 0 ? small(total_k) : longest.second;
  if (all.q.type == element::fp16)
    enqueue_varlen<float16>(on, all, chosen, new_scratch, stream);
  else
    enqueue_varlen<bfloat16>(on, all, chosen, new_scratch, stream);
}

struct paged_arrays : common_arrays {
  array page_table, seqlens, k_descale, v_descale;
  kv_layout layout = kv_layout::nhd;
  int q_len = 0;
};

bool is_by_head(const array& descale) {
  return descale.memory.is_valid() && descale.shape[0] > 1;
}

template <class Value, class Cache>
void enqueue_paged(const py_world& on, const paged_arrays& given, const choices& chosen,
                   const nb::callable& new_scratch, stream_ref stream) {
  const bool is_varlen = given.cu_seqlens_q.memory.is_valid(), is_hnd = given.layout == kv_layout::hnd;
  const extents &of_q = given.q.shape, &of_k = given.k.shape;
  const int first = is_varlen ? 1 : 2;
  paged_attention_problem<Value, Cache> problem{
      .q = values_of<Value>(given.q),
      .k_cache = values_of<Cache>(given.k),
      .v_cache = values_of<Cache>(given.v),
      .out = static_cast<Value*>(given.out.data),
      .lse = static_cast<float*>(given.lse.data),
      .page_table = ints_of(given.page_table),
      .seqlens = ints_of(given.seqlens),
      .batch = small(given.seqlens.shape[0]),
      .q_len = given.q_len,
      .heads = small(of_q[first]),
      .kv_heads = small(of_k[is_hnd ? 1 : 2]),
      .head_dim = small(of_q[first + 1]),
      .num_pages = small(of_k[0]),
      .page_size = small(of_k[is_hnd ? 2 : 1]),
      .max_pages = small(given.page_table.shape[1]),
      .layout = given.layout,
      .page_stride = given.k.row_stride,
      .q_stride = given.q.row_stride,
      .out_stride = given.out.row_stride,
      .cu_seqlens_q = ints_of(given.cu_seqlens_q),
      .total_q = is_varlen ? small(of_q[0]) : 0,
      .k_descale = floats_of(given.k_descale),
      .v_descale = floats_of(given.v_descale),
      .descale_by_head = is_by_head(given.k_descale) || is_by_head(given.v_descale),
      .options = options_of(chosen, floats_of(given.sinks))};
  enqueue(on, problem, new_scratch,
          {given.q.memory, given.k.memory, given.v.memory, given.out.memory, given.lse.memory,
           given.page_table.memory, given.seqlens.memory, given.cu_seqlens_q.memory, given.sinks.memory,
           given.k_descale.memory, given.v_descale.memory},
          stream, [](const auto&... all) { paged_attention(all...); });
}

template <class Value>
void enqueue_paged_of(const py_world& on, const paged_arrays& given, const choices& chosen,
                      const nb::callable& new_scratch, stream_ref stream) {
  if (given.k.type == element::e4m3)
    enqueue_paged<Value, float8_e4m3>(on, given, chosen, new_scratch, stream);
  else
    enqueue_paged<Value, Value>(on, given, chosen, new_scratch, stream);
}

/// q, out and lse, whose shapes cu_seqlens_q changes.
void take_rows(paged_arrays& all, const nb::tuple& given, int longest, const world& rank) {
  all.cu_seqlens_q = ends_of_sequences(
      optional_array(given[7], {"cu_seqlens_q", {element::int32}, {-1}}, rank), "cu_seqlens_q");
  const bool is_varlen = all.cu_seqlens_q.memory.is_valid();
  const int rows_of = is_varlen ? 1 : 2;
  const extents any = is_varlen ? extents{-1, -1, -1} : extents{-1, -1, -1, -1};
  all.q = array_of(given[0], {"q", {element::bf16, element::fp16}, any, false, rows_of}, rank);
  const extents& shape = all.q.shape;
  all.out = array_of(given[3], {"out", {all.q.type}, shape, true, rows_of}, rank);
  const extents of_lse = is_varlen ? extents{shape[1], shape[0]} : extents{shape[0], shape[2], shape[1]};
  all.lse = optional_array(given[4], {"lse", {element::fp32}, of_lse, true}, rank);
  all.q_len = !is_varlen ? small(shape[1]) : longest < 0 ? small(shape[0]) : longest;
}

/// One for all heads of k, or one for each; as many as `count`, -1: either.
array descale_of(nb::handle given, const char* name, const paged_arrays& all, std::int64_t count,
                 const world& rank) {
  if (given.is_none()) return {};
  if (all.k.type != element::e4m3)
    throw invalid_argument{name +
                           std::string{": expected None, as only caches of float8_e4m3fn have one and "
                                       "k_cache is of q's type; found "} +
                           nb::inst_name(given).c_str()};
  array found = array_of(given, {name, {element::fp32}, {count}}, rank);
  const std::int64_t kv_heads = all.k.shape[all.layout == kv_layout::hnd ? 1 : 2];
  if (found.shape[0] != 1 && found.shape[0] != kv_heads)
    throw invalid_argument{name + std::string{": expected float32 [1] or [kv_heads], here ["} +
                           std::to_string(kv_heads) + "]; found [" + std::to_string(found.shape[0]) + "]"};
  return found;
}

/// k_cache, v_cache, and what their values are multiplied by.
void take_caches(paged_arrays& all, const nb::tuple& given, std::int64_t head_dim, const world& rank) {
  all.k =
      array_of(given[1], {"k_cache", {all.q.type, element::e4m3}, {-1, -1, -1, head_dim}, false, 1}, rank);
  all.v = array_of(given[2], {"v_cache", {all.k.type}, all.k.shape, false, 1}, rank);
  if (all.v.row_stride != all.k.row_stride)
    throw invalid_argument{"v_cache: pages " + std::to_string(all.v.row_stride) +
                           " values apart, expected as in k_cache, where they are " +
                           std::to_string(all.k.row_stride)};
  all.k_descale = descale_of(given[9], "k_descale", all, -1, rank);
  const std::int64_t count = all.k_descale.memory.is_valid() ? all.k_descale.shape[0] : -1;
  all.v_descale = descale_of(given[10], "v_descale", all, count, rank);
}

/// `given`: q, k_cache, v_cache, out, lse, page_table, seqlens, cu_seqlens_q, sinks, k_descale, v_descale. `shaped`: the cache's
/// layout, and how long the longest sequence of q is with cu_seqlens_q; -1: as many as there are rows.
void with_kvcache(const py_world& on, const nb::tuple& given, const choices& chosen,
                  const std::pair<std::string, int>& shaped, const nb::callable& new_scratch,
                  std::uintptr_t stream_handle) {
  const world& rank = on.get();
  const stream_ref stream = on.stream_of(stream_handle);
  paged_arrays all;
  all.layout = layout_of(shaped.first);
  take_rows(all, given, shaped.second, rank);
  const bool is_varlen = all.cu_seqlens_q.memory.is_valid();
  const std::int64_t heads = all.q.shape[is_varlen ? 1 : 2], head_dim = all.q.shape[is_varlen ? 2 : 3];
  const std::int64_t batch = is_varlen ? all.cu_seqlens_q.shape[0] - 1 : all.q.shape[0];
  take_caches(all, given, head_dim, rank);
  all.page_table = array_of(given[5], {"page_table", {element::int32}, {batch, -1}}, rank);
  all.seqlens = array_of(given[6], {"seqlens", {element::int32}, {batch}}, rank);
  all.sinks = optional_array(given[8], {"sinks", {element::fp32}, {heads}}, rank);
  if (all.q.type == element::fp16)
    enqueue_paged_of<float16>(on, all, chosen, new_scratch, stream);
  else
    enqueue_paged_of<bfloat16>(on, all, chosen, new_scratch, stream);
}

/// heads, kv_heads, head_dim
using head_sizes = std::tuple<int, int, int>;

/// `one`: what its kind of call has for a row and a key.
template <class Problem>
std::string reason_against(device_kind device, Problem one, const head_sizes& sizes,
                           const attention_options& options) {
  one.batch = 1;
  std::tie(one.heads, one.kv_heads, one.head_dim) = sizes;
  one.options = options;
  return supports(device, one).why_not;
}

template <class Value>
std::string reason_in_rows(device_kind device, const head_sizes& sizes, const attention_options& options) {
  const varlen_attention_problem<Value> one{.max_seqlen_q = 1, .max_seqlen_k = 1, .total_q = 1, .total_k = 1};
  return reason_against(device, one, sizes, options);
}

template <class Value, class Cache>
std::string reason_in_pages(device_kind device, const head_sizes& sizes, int page_size,
                            const attention_options& options) {
  const paged_attention_problem<Value, Cache> one{
      .q_len = 1, .num_pages = 1, .page_size = page_size, .max_pages = 1};
  return reason_against(device, one, sizes, options);
}

/// Of q, of keys and values.
using element_names = std::pair<std::string, std::string>;

template <class Value>
std::string reason_of(device_kind device, const element_names& types, const head_sizes& sizes, int page_size,
                      const attention_options& options) {
  const auto& [of_q, of_cache] = types;
  const bool in_rows = page_size == 0;
  if (of_cache == of_q)
    return in_rows ? reason_in_rows<Value>(device, sizes, options)
                   : reason_in_pages<Value, Value>(device, sizes, page_size, options);
  if (of_cache == "float8_e4m3fn" && !in_rows)
    return reason_in_pages<Value, float8_e4m3>(device, sizes, page_size, options);
  return "cache_dtype is " + of_cache + "; expected " + of_q +
         (in_rows ? ", as there are no pages without a page_size" : " or float8_e4m3fn");
}

/// `sizes`: heads, kv_heads, head_dim. `page_size` 0: of keys in rows.
std::string why_no_attention(const std::string& device, const element_names& types, const head_sizes& sizes,
                             int page_size, const choices& chosen, bool has_sinks) {
  static constexpr float sink = 0;
  const device_kind kind = device == "cpu" ? device_kind::cpu : device_kind::cuda;
  const attention_options options = options_of(chosen, has_sinks ? &sink : nullptr);
  if (types.first == "float16") return reason_of<float16>(kind, types, sizes, page_size, options);
  if (types.first == "bfloat16") return reason_of<bfloat16>(kind, types, sizes, page_size, options);
  return "dtype is " + types.first + "; expected bfloat16 or float16";
}

}  // namespace

void bind_attention(nb::module_& module) {
  const nb::arg on{"world"}, given{"given"}, options{"options"}, scratch{"new_scratch"}, stream{"stream"};
  module.def("varlen_attention", &varlen, on, given, options, nb::arg("longest"), scratch, stream);
  module.def("attention_with_kvcache", &with_kvcache, on, given, options, nb::arg("layout_and_longest"),
             scratch, stream);
  module.def("why_no_attention", &why_no_attention, nb::arg("device"), nb::arg("dtypes"), nb::arg("sizes"),
             nb::arg("page_size"), options, nb::arg("has_sinks"));
}

}  // namespace baton::python
