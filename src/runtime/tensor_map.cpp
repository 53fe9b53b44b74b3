#include "runtime/tensor_map.hpp"

#include <fmt/format.h>

#include "baton/error.hpp"
#include "runtime/on_cuda.hpp"
#include "sim/tensor_map.hpp"

namespace baton {
namespace {

void require_range(const char* what, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value < least || value > most)
    throw invalid_argument{fmt::format("tensor map: {} is {}, expected {} to {}", what, value, least, most)};
}

// What the hardware asks of a map.
constexpr std::int64_t most_extent = std::int64_t{1} << 32, most_stride = (std::int64_t{1} << 40) - 16;

void require_elements(int bytes, const void* base) {
  if (bytes != 1 && bytes != 2 && bytes != 4)
    throw invalid_argument{fmt::format("tensor map: element_bytes is {}, expected 1, 2 or 4", bytes)};
  if (base == nullptr || reinterpret_cast<std::uintptr_t>(base) % 16 != 0)
    throw invalid_argument{fmt::format("tensor map: base is {}, expected memory aligned to 16 bytes", base)};
}

void require(const tensor_boxes& m) {
  require_elements(m.element_bytes, m.base);
  for (int d = 0; d < tensor_boxes::most_dims; ++d) {
    require_range("an extent", m.extents[d], 1, most_extent);
    require_range("a box's extent", m.box[d], 1, 256);
    if (d == 0) continue;
    require_range("a stride", m.strides[d - 1], 16, most_stride);
    if (m.strides[d - 1] % 16 != 0)
      throw invalid_argument{
          fmt::format("tensor map: a stride is {}, expected a multiple of 16", m.strides[d - 1])};
  }
}

void require(const tensor_layout& m) {
  require_range("columns", m.columns, 1, most_extent);
  require_range("rows", m.rows, 1, most_extent);
  require_range("box_rows", m.box_rows, 1, 256);
  require_range("row_bytes", m.row_bytes, m.columns * m.element_bytes, most_stride);
  if (m.row_bytes % 16 != 0)
    throw invalid_argument{
        fmt::format("tensor map: row_bytes is {}, expected a multiple of 16", m.row_bytes)};
  require_elements(m.element_bytes, m.base);
}

}  // namespace

tensor_map make_tensor_map(const world& w, const tensor_layout& layout) {
  require(layout);
  return w.device() == device_kind::cpu ? sim::make_tensor_map(layout)
                                        : on_cuda::make_tensor_map(boxes_of(layout), 2);
}

tensor_map make_tensor_map(const world& w, const tensor_boxes& boxes) {
  require(boxes);
  return w.device() == device_kind::cpu ? sim::make_box_map(boxes)
                                        : on_cuda::make_tensor_map(boxes, tensor_boxes::most_dims);
}

}  // namespace baton
