#pragma once
// Tensor maps of the CPU machine: the layout itself, in the bytes of a tensor_map.
#include <cstring>
#include <type_traits>

#include "exec/tensor_copy.hpp"

namespace baton::sim {

inline constexpr int box_row_bytes = swizzled_tile<std::byte>::row_bytes;

inline tensor_map make_tensor_map(const tensor_layout& layout) {
  static_assert(sizeof layout <= sizeof(tensor_map) && std::is_trivially_copyable_v<tensor_layout>);
  tensor_map map{};
  std::memcpy(map.opaque, &layout, sizeof layout);
  return map;
}
inline tensor_layout layout_of(const tensor_map& map) {
  tensor_layout layout;
  std::memcpy(&layout, map.opaque, sizeof layout);
  return layout;
}

}  // namespace baton::sim
