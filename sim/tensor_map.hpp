#pragma once
// Tensor maps of the CPU machine: the boxes themselves, in the bytes of a tensor_map.
#include <cstring>
#include <type_traits>

#include "exec/tensor_copy.hpp"

namespace baton::sim {

inline constexpr int box_row_bytes = swizzled_tile<std::byte>::row_bytes;

inline tensor_map make_box_map(const tensor_boxes& boxes) {
  static_assert(sizeof boxes <= sizeof(tensor_map) && std::is_trivially_copyable_v<tensor_boxes>);
  tensor_map map{};
  std::memcpy(map.opaque, &boxes, sizeof boxes);
  return map;
}
inline tensor_map make_tensor_map(const tensor_layout& layout) {
  return make_box_map(boxes_of(layout));
}
inline tensor_boxes boxes_of(const tensor_map& map) {
  tensor_boxes boxes;
  std::memcpy(&boxes, map.opaque, sizeof boxes);
  return boxes;
}

}  // namespace baton::sim
