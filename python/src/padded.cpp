// Rows of a dispatch in memory for as many of each expert as may come, and back, on arrays of Python.
#include "baton/padded_rows.hpp"

#include <string>

#include "baton/error.hpp"
#include "communicator.hpp"

namespace baton::python {
namespace {

const py_world& rank_of(const received& from) {
  return nb::cast<communicator&>(from.owner).rank();
}

/// `given`: tokens, scales, row_counts, source_tokens, source_ranges; any may be None.
void pad_rows(const received& from, const nb::tuple& given, int capacity, int num_sms,
              std::uintptr_t stream_handle) {
  const py_world& on = rank_of(from);
  const world& rank = on.get();
  const stream_ref stream = on.stream_of(stream_handle);
  const received_tokens& rows = from.rows;
  const std::int64_t experts = rows.num_local_experts;
  const element type = rows.format == token_format::bf16 ? element::bf16 : element::e4m3;
  const array tokens =
      optional_array(given[0], {"tokens", {type}, {experts, capacity, rows.hidden}, true}, rank);
  const array scales = optional_array(
      given[1], {"scales", {element::fp32, element::int32}, {experts, -1, capacity}, true}, rank);
  const array counts = optional_array(given[2], {"row_counts", {element::int32}, {experts}, true}, rank);
  const array source_tokens =
      optional_array(given[3], {"source_tokens", {element::int32}, {experts, capacity}, true}, rank);
  const array ranges =
      optional_array(given[4], {"source_ranges", {element::int64}, {experts, rank.size()}, true}, rank);
  const padded_rows out{.capacity = capacity,
                        .tokens = tokens.data,
                        .scales = scales.data,
                        .scales_as_exponents = scales.memory.is_valid() && scales.type == element::int32,
                        .row_counts = static_cast<std::int32_t*>(counts.data),
                        .source_tokens = static_cast<std::int32_t*>(source_tokens.data),
                        .source_ranges = static_cast<std::int64_t*>(ranges.data),
                        .num_sms = num_sms};
  if (scales.memory.is_valid()) {
    const int blocks = facts_of(rows.format).row_scales(rows.hidden);
    if (scales.type == element::int32 && blocks % 4 != 0)
      throw invalid_argument{
          "scales: int32, each of which holds four, expected hidden to be a multiple of 512; found " +
          std::to_string(rows.hidden)};
    const std::int64_t columns = out.scales_as_exponents ? blocks / 4 : blocks;
    array_of(given[1], {"scales", {scales.type}, {experts, columns, capacity}, true}, rank);
  }
  run(on, {tokens.memory, scales.memory, counts.memory, source_tokens.memory, ranges.memory}, stream,
      [&] { baton::pad_rows(rank, rows, out, stream); });
}

/// `given`: padded, out.
void unpad_rows(const received& from, const nb::tuple& given, int num_sms, std::uintptr_t stream_handle) {
  const py_world& on = rank_of(from);
  const world& rank = on.get();
  const stream_ref stream = on.stream_of(stream_handle);
  const received_tokens& rows = from.rows;
  const array padded =
      array_of(given[0], {"padded", {element::bf16}, {rows.num_local_experts, -1, rows.hidden}}, rank);
  const array out = array_of(given[1], {"out", {element::bf16}, {rows.max_rows, rows.hidden}, true}, rank);
  run(on, {padded.memory, out.memory}, stream, [&] {
    const padded_answers from{static_cast<const bfloat16*>(padded.data), small(padded.shape[1]), num_sms};
    baton::unpad_rows(rank, rows, from, static_cast<bfloat16*>(out.data), stream);
  });
}

}  // namespace

void bind_padded(nb::module_& module) {
  const nb::arg rows{"received"}, given{"given"}, num_sms{"num_sms"}, stream{"stream"};
  module.def("pad_rows", &pad_rows, rows, given, nb::arg("capacity"), num_sms, stream);
  module.def("unpad_rows", &unpad_rows, rows, given, num_sms, stream);
}

}  // namespace baton::python
