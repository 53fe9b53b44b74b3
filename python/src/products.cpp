// Products of matrices and whole experts on arrays of Python.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "baton/error.hpp"
#include "baton/expert_mlp.hpp"
#include "baton/gemm.hpp"
#include "baton/grouped_gemm.hpp"
#include "communicator.hpp"

namespace baton::python {
namespace {

activation activation_of(const std::string& named) {
  for (const activation a : {activation::none, activation::relu, activation::silu, activation::gelu})
    if (named == name(a)) return a;
  throw invalid_argument{"activation: '" + named + "', expected one of 'none', 'relu', 'silu', 'gelu'"};
}

/// A bias of the result's type, or in fp32.
template <class Value>
void set_bias(const array& bias, const Value*& own, const float*& fp32) {
  if (!bias.memory.is_valid()) return;
  if constexpr (std::is_same_v<Value, float>)
    own = static_cast<const float*>(bias.data);
  else if (bias.type == element::fp32)
    fp32 = static_cast<const float*>(bias.data);
  else
    own = static_cast<const Value*>(bias.data);
}

struct gemm_arguments {
  array a = {}, b = {}, c = {}, bias = {};
  float alpha = 1, beta = 0;
  activation act = activation::none;
  gemm_b_layout b_layout = gemm_b_layout::n_by_k;
};

template <class Out, class In>
void enqueue_gemm(const world& rank, const gemm_arguments& given, const gemm_config& config,
                  stream_ref stream) {
  gemm_problem<Out, In> problem{.a = static_cast<const In*>(given.a.data),
                                .b = static_cast<const In*>(given.b.data),
                                .c = static_cast<Out*>(given.c.data),
                                .m = small(given.c.shape[0]),
                                .n = small(given.c.shape[1]),
                                .k = small(given.a.shape[1]),
                                .alpha = given.alpha,
                                .beta = given.beta,
                                .act = given.act,
                                .b_layout = given.b_layout};
  set_bias(given.bias, problem.bias, problem.fp32_bias);
  baton::gemm(rank, problem, config, stream);
}

void enqueue(const world& rank, const gemm_arguments& given, const gemm_config& config, stream_ref stream) {
  const bool is_half = given.a.type == element::fp16;
  if (given.c.type == element::fp32)
    return is_half ? enqueue_gemm<float, float16>(rank, given, config, stream)
                   : enqueue_gemm<float, bfloat16>(rank, given, config, stream);
  return is_half ? enqueue_gemm<float16, float16>(rank, given, config, stream)
                 : enqueue_gemm<bfloat16, bfloat16>(rank, given, config, stream);
}

/// What of a product is neither an array nor an activation.
using factors = std::pair<float, float>;          // alpha, beta
using gemm_choices = std::tuple<bool, int, int>;  // whether b is [k, n], splits, num_sms

/// `given`: a, b, c, bias.
void gemm(const py_world& on, const nb::tuple& given, const factors& by, const std::string& act,
          const gemm_choices& choices, std::uintptr_t stream_handle) {
  const auto [b_is_k_by_n, splits, num_sms] = choices;
  const world& rank = on.get();
  const stream_ref stream = on.stream_of(stream_handle);
  gemm_arguments problem{.alpha = by.first, .beta = by.second, .act = activation_of(act)};
  problem.a = array_of(given[0], {"a", {element::bf16, element::fp16}, {-1, -1}}, rank);
  const std::int64_t k = problem.a.shape[1];
  if (b_is_k_by_n) problem.b_layout = gemm_b_layout::k_by_n;
  const extents shape_of_b{b_is_k_by_n ? k : -1, b_is_k_by_n ? -1 : k};
  problem.b = array_of(given[1], {"b", {problem.a.type}, shape_of_b}, rank);
  const std::int64_t n = problem.b.shape[b_is_k_by_n ? 1 : 0];
  problem.c =
      array_of(given[2], {"out", {problem.a.type, element::fp32}, {problem.a.shape[0], n}, true}, rank);
  problem.bias = optional_array(given[3], {"bias", {problem.c.type, element::fp32}, {n}}, rank);
  const gemm_config config{.num_sms = num_sms, .splits = splits};
  run(on, {problem.a.memory, problem.b.memory, problem.c.memory, problem.bias.memory}, stream,
      [&] { enqueue(rank, problem, config, stream); });
}

struct grouped_arguments {
  array a = {}, b = {}, c = {}, counts = {}, firsts = {}, a_rows = {}, bias = {}, row_weights = {};
  int stride = 0;
  activation act = activation::none;
};

template <class Value>
void enqueue_grouped(const world& rank, const grouped_arguments& given, int num_sms, stream_ref stream) {
  grouped_problem<Value> problem{.a = static_cast<const Value*>(given.a.data),
                                 .b = static_cast<const Value*>(given.b.data),
                                 .c = static_cast<Value*>(given.c.data),
                                 .n = small(given.b.shape[1]),
                                 .k = small(given.b.shape[2]),
                                 .rows = {.max_rows = small(given.c.shape[0]),
                                          .counts = static_cast<const std::int32_t*>(given.counts.data),
                                          .firsts = static_cast<const std::int32_t*>(given.firsts.data),
                                          .num_ranges = small(given.b.shape[0]),
                                          .num_sms = num_sms},
                                 .stride = given.stride,
                                 .a_rows = static_cast<const std::int32_t*>(given.a_rows.data),
                                 .act = given.act,
                                 .row_weights = static_cast<const float*>(given.row_weights.data)};
  if (problem.a_rows != nullptr) problem.num_a_rows = small(given.a.shape[0]);
  set_bias(given.bias, problem.bias, problem.fp32_bias);
  baton::grouped_gemm(rank, problem, stream);
}

/// `given`: a, b, c, counts, firsts, a_rows, bias, row_weights.
void grouped_gemm(const py_world& on, const nb::tuple& given, int stride, const std::string& act, int num_sms,
                  std::uintptr_t stream_handle) {
  const world& rank = on.get();
  const stream_ref stream = on.stream_of(stream_handle);
  grouped_arguments p{.stride = stride, .act = activation_of(act)};
  p.a = array_of(given[0], {"a", {element::bf16, element::fp16}, {-1, -1}}, rank);
  p.b = array_of(given[1], {"b", {p.a.type}, {-1, -1, p.a.shape[1]}}, rank);
  const std::int64_t groups = p.b.shape[0], n = p.b.shape[1];
  p.a_rows = optional_array(given[5], {"a_rows", {element::int32}, {-1}}, rank);
  const std::int64_t rows = p.a_rows.memory.is_valid() ? p.a_rows.shape[0] : p.a.shape[0];
  p.c = array_of(given[2], {"out", {p.a.type}, {rows, n}, true}, rank);
  p.counts = array_of(given[3], {"counts", {element::int32}, {groups}}, rank);
  p.firsts = optional_array(given[4], {"firsts", {element::int32}, {groups}}, rank);
  p.bias = optional_array(given[6], {"bias", {p.a.type, element::fp32}, {groups, n}}, rank);
  p.row_weights = optional_array(given[7], {"row_weights", {element::fp32}, {rows}}, rank);
  run(on,
      {p.a.memory, p.b.memory, p.c.memory, p.counts.memory, p.firsts.memory, p.a_rows.memory, p.bias.memory,
       p.row_weights.memory},
      stream, [&] {
        if (p.a.type == element::fp16)
          enqueue_grouped<float16>(rank, p, num_sms, stream);
        else
          enqueue_grouped<bfloat16>(rank, p, num_sms, stream);
      });
}

/// Weights as the library takes them, and the arrays that they lie in.
struct weight_arrays {
  expert_weights weights;
  std::vector<kept_array> used;

  const void* take(nb::handle given, const expectation& expected, const world& rank) {
    array taken = optional_array(given, expected, rank);
    used.push_back(std::move(taken.memory));
    return taken.data;
  }
};

/// `given`: gate, up, down, their scales, their biases.
weight_arrays weights_of(const nb::tuple& given, const received_tokens& rows, const world& rank) {
  weight_arrays all;
  expert_weights& w = all.weights;
  const std::int64_t experts = rows.num_local_experts, hidden = rows.hidden;
  const array gate =
      array_of(given[0], {"gate", {element::bf16, element::e4m3}, {experts, -1, hidden}}, rank);
  const std::int64_t intermediate = gate.shape[1];
  all.used.push_back(gate.memory);
  w.gate = gate.data;
  w.up = all.take(given[1], {"up", {gate.type}, {experts, intermediate, hidden}}, rank);
  w.down = all.take(given[2], {"down", {gate.type}, {experts, hidden, intermediate}}, rank);
  w.num_local_experts = rows.num_local_experts;
  w.hidden = rows.hidden;
  w.intermediate = small(intermediate);
  w.format = gate.type == element::bf16 ? weight_format::bf16 : weight_format::block_fp8;
  const std::int64_t across = weight_scales(w.hidden), along = weight_scales(w.intermediate);
  const auto scales = [&](int at, const char* name, const extents& shape) {
    return static_cast<const float*>(all.take(given[at], {name, {element::fp32}, shape}, rank));
  };
  w.gate_scales = scales(3, "gate_scales", {experts, along, across});
  w.up_scales = scales(4, "up_scales", {experts, along, across});
  w.down_scales = scales(5, "down_scales", {experts, across, along});
  const auto bias = [&](int at, const char* name, std::int64_t values) {
    return static_cast<const bfloat16*>(
        all.take(given[at], {name, {element::bf16}, {experts, values}}, rank));
  };
  w.gate_bias = bias(6, "gate_bias", intermediate);
  w.up_bias = bias(7, "up_bias", intermediate);
  w.down_bias = bias(8, "down_bias", hidden);
  return all;
}

gating gating_of(const std::string& named) {
  for (const gating g : {gating::silu, gating::clamped})
    if (named == name(g)) return g;
  throw invalid_argument{"gating: '" + named + "', expected 'silu' or 'clamped'"};
}

/// Bytes of scratch, with room to align it.
std::size_t scratch_bytes(const received& from, std::int64_t intermediate, bool is_fp8) {
  expert_weights weights{.hidden = from.rows.hidden, .intermediate = small(intermediate)};
  if (is_fp8) weights.format = weight_format::block_fp8;
  const world& rank = nb::cast<communicator&>(from.owner).rank().get();
  const std::size_t bytes = expert_mlp_scratch_bytes(weights, from.rows, rank.device());
  return bytes == 0 ? 0 : bytes + scratch_alignment;
}

/// Where the tokens of a dispatch lie, which belong to no array.
kept_array tokens_of(const received_tokens& rows) {
  const bool is_by_expert = rows.token_rows == nullptr;
  const std::int64_t values = rows.hidden * facts_of(rows.format).value_bits / 8;
  const byte_rows at{reinterpret_cast<std::uintptr_t>(rows.tokens),
                     is_by_expert ? rows.max_rows : rows.max_token_rows, values,
                     is_by_expert ? values : rows.row_bytes};
  kept_array tokens;
  tokens.note("received.tokens", at, false);
  return tokens;
}

/// `given`: as weights_of, then row_weights, out and scratch.
void expert_mlp(const received& from, const nb::tuple& given, const std::string& gated_by, int num_sms,
                std::uintptr_t stream_handle) {
  const py_world& on = nb::cast<communicator&>(from.owner).rank();
  const world& rank = on.get();
  const stream_ref stream = on.stream_of(stream_handle);
  received_tokens rows = from.rows;
  weight_arrays all = weights_of(given, rows, rank);
  all.weights.gated_by = gating_of(gated_by);
  all.weights.num_sms = num_sms;
  const array row_weights = optional_array(given[9], {"row_weights", {element::fp32}, {rows.max_rows}}, rank);
  rows.row_weights = static_cast<const float*>(row_weights.data);
  const array out = array_of(given[10], {"out", {element::bf16}, {rows.max_rows, rows.hidden}, true}, rank);
  const array scratch = optional_array(given[11], {"scratch", {element::uint8}, {-1}, true}, rank);
  all.used.insert(all.used.end(), {row_weights.memory, out.memory, scratch.memory, tokens_of(rows)});
  run(on, all.used, stream, [&] {
    baton::expert_mlp(rank, all.weights, rows, static_cast<bfloat16*>(out.data), aligned(scratch.data),
                      stream);
  });
}

}  // namespace

void* aligned(void* at) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  return reinterpret_cast<void*>((address + scratch_alignment - 1) / scratch_alignment * scratch_alignment);
}

void bind_products(nb::module_& module) {
  const nb::arg on{"world"}, rows{"received"}, given{"given"}, activation{"activation"}, stream{"stream"};
  module.def("gemm", &gemm, on, given, nb::arg("alpha_beta"), activation,
             nb::arg("b_is_k_by_n_splits_num_sms"), stream);
  module.def("grouped_gemm", &grouped_gemm, on, given, nb::arg("stride"), activation, nb::arg("num_sms"),
             stream);
  module.def("expert_mlp", &expert_mlp, rows, given, nb::arg("gating"), nb::arg("num_sms"), stream);
  module.def("expert_mlp_scratch_bytes", &scratch_bytes, rows, nb::arg("intermediate"), nb::arg("is_fp8"));
  module.def("world_of", [](const received& from) { return nb::cast<communicator&>(from.owner).rank(); });
}

}  // namespace baton::python
