// What a dispatch left, as arrays of Python over the communicator's memory.
#include "baton/received_tokens.hpp"

#include <nanobind/stl/string.h>

#include <cstdint>
#include <new>
#include <utility>

#include "communicator.hpp"

namespace baton::python {
namespace {

std::size_t extent(int n) {
  return static_cast<std::size_t>(n);
}

const world& rank_of(const received& from) {
  return nb::cast<communicator&>(from.owner).rank().get();
}

/// Owned by a copy of `from`: rounds share views, and `from` itself would keep them, and they it.
nb::object view(const received& from, const layout& memory, bool as_bits = false) {
  return view_of(memory, rank_of(from), nb::cast(received{from}), as_bits);
}

nb::object tokens(const received& from, bool as_bits) {
  const received_tokens& r = from.rows;
  const int value_bits = facts_of(r.format).value_bits;
  const element type = value_bits == 16 ? element::bf16 : value_bits == 8 ? element::e4m3 : element::uint8;
  const int columns = value_bits == 4 ? r.hidden / 2 : r.hidden;
  if (r.token_rows == nullptr)
    return view(from, {r.tokens, type, {extent(r.max_rows), extent(columns)}}, as_bits);
  const int bytes = value_bits == 16 ? 2 : 1;
  return view(from, {r.tokens, type, {extent(r.max_token_rows), extent(columns)}, {r.row_bytes / bytes, 1}},
              as_bits);
}

nb::object scales(const received& from, bool as_bits) {
  const received_tokens& r = from.rows;
  const format_facts facts = facts_of(r.format);
  if (r.scales == nullptr || facts.block == 0) return nb::none();
  const element type = scales_of(r.format);
  const int blocks = facts.row_scales(r.hidden);
  if (r.token_rows != nullptr)
    return view(
        from,
        {r.scales, type, {extent(r.max_token_rows), extent(blocks)}, {r.row_bytes / facts.scale_bytes, 1}},
        as_bits);
  if (r.scales_layout == scale_layout::tiled_128x4) {
    const scale_places places{r.scales_layout, r.max_rows, blocks};
    return view(from, {r.scales, type, {static_cast<std::size_t>(places.count())}}, as_bits);
  }
  std::vector<std::int64_t> strides;
  if (r.scales_layout == scale_layout::column_major) strides = {1, r.max_rows};
  return view(from, {r.scales, type, {extent(r.max_rows), extent(blocks)}, strides}, as_bits);
}

nb::object numbers(const received& from, const void* at, std::vector<std::size_t> shape) {
  if (at == nullptr) return nb::none();
  return view(from, {at, element::int32, std::move(shape)});
}

/// Of values, of scales that lie among them, and of sources.
std::int64_t bytes_of_rows(const received_tokens& r) {
  const std::int64_t values = r.token_rows != nullptr
                                  ? std::int64_t{r.max_token_rows} * r.row_bytes
                                  : std::int64_t{r.max_rows} * r.hidden * facts_of(r.format).value_bits / 8;
  return values + std::int64_t{r.max_rows} * static_cast<std::int64_t>(sizeof(source_info));
}

}  // namespace

received received_by(nb::object of, const received_tokens& rows) {
  live_view counted{nb::cast<communicator&>(of).live_views()};
  return {std::move(of), rows, std::move(counted)};
}

void bind_received(nb::module_& module) {
  static_assert(sizeof(source_info) == 4 * sizeof(std::int32_t));
  nb::class_<received>(module, "Received")  // whose names baton.Received has
      .def("__init__", [](received* at, const received& of) { new (at) received{of}; })
      .def("_view_tokens", &tokens, nb::arg("as_bits"))
      .def("_view_scales", &scales, nb::arg("as_bits"))
      .def("_view_row_offsets",
           [](const received& from) {
             return numbers(from, from.rows.row_offsets, {extent(from.rows.num_local_experts + 1)});
           })
      .def("_view_row_counts",
           [](const received& from) {
             return numbers(from, from.rows.row_counts, {extent(from.rows.num_local_experts)});
           })
      .def("_view_expert_ids",
           [](const received& from) {
             return numbers(from, from.rows.expert_ids, {extent(from.rows.num_local_experts)});
           })
      .def("_view_sources",
           [](const received& from) {
             return numbers(from, from.rows.sources, {extent(from.rows.max_rows), 4});
           })
      .def("_view_token_rows",
           [](const received& from) {
             return numbers(from, from.rows.token_rows, {extent(from.rows.max_rows)});
           })
      .def_prop_ro("_its_num_local_experts", [](const received& from) { return from.rows.num_local_experts; })
      .def_prop_ro("_its_max_rows", [](const received& from) { return from.rows.max_rows; })
      .def_prop_ro("_its_bytes", [](const received& from) { return bytes_of_rows(from.rows); })
      .def_prop_ro("_its_hidden", [](const received& from) { return from.rows.hidden; })
      .def_prop_ro("_its_format", [](const received& from) { return name(from.rows.format); });
}

}  // namespace baton::python
