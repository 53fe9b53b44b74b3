#include <fmt/format.h>

#include <cstring>

#include "baton/error.hpp"
#include "runtime/driver_cuda.hpp"
#include "runtime/on_cuda.hpp"

namespace baton::on_cuda {
namespace {

/// Copies ask for an element's size alone; the type says what zeros are, and those are zeros in all of them.
CUtensorMapDataType type_of(int element_bytes) {
  return element_bytes == 1   ? CU_TENSOR_MAP_DATA_TYPE_UINT8
         : element_bytes == 2 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                              : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
}

}  // namespace

tensor_map make_tensor_map(const tensor_layout& layout) {
  static_assert(sizeof(CUtensorMap) == sizeof(tensor_map) && alignof(CUtensorMap) <= alignof(tensor_map));
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(layout.columns), static_cast<cuuint64_t>(layout.rows)};
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(layout.row_bytes)};
  const cuuint32_t box[2] = {
      static_cast<cuuint32_t>(swizzled_tile<std::byte>::row_bytes / layout.element_bytes),
      static_cast<cuuint32_t>(layout.box_rows)};
  const cuuint32_t steps[2] = {1, 1};
  CUtensorMap map{};
  const CUresult status = driver().tensor_map_encode_tiled(
      &map, type_of(layout.element_bytes), 2, const_cast<void*>(layout.base), sizes, strides, box, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) {
    const char* text = nullptr;
    driver().get_error_string(status, &text);
    throw cuda_error{fmt::format("cuTensorMapEncodeTiled: {} for {} x {} elements of {} bytes at {}",
                                 text != nullptr ? text : "unknown error", layout.rows, layout.columns,
                                 layout.element_bytes, layout.base)};
  }
  tensor_map made;
  std::memcpy(&made, &map, sizeof made);
  return made;
}

}  // namespace baton::on_cuda
