#include <fmt/format.h>
#include <fmt/ranges.h>

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

tensor_map make_tensor_map(const tensor_boxes& boxes, int dims) {
  static_assert(sizeof(CUtensorMap) == sizeof(tensor_map) && alignof(CUtensorMap) <= alignof(tensor_map));
  constexpr int most = tensor_boxes::most_dims;
  cuuint64_t extents[most], strides[most - 1];
  cuuint32_t box[most], steps[most];
  for (int d = 0; d < dims; ++d) {
    extents[d] = static_cast<cuuint64_t>(boxes.extents[d]);
    if (d > 0) strides[d - 1] = static_cast<cuuint64_t>(boxes.strides[d - 1]);
    box[d] = static_cast<cuuint32_t>(boxes.box[d]);
    steps[d] = 1;
  }
  CUtensorMap map{};
  const CUresult status = driver().tensor_map_encode_tiled(
      &map, type_of(boxes.element_bytes), static_cast<cuuint32_t>(dims), const_cast<void*>(boxes.base),
      extents, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      boxes.fetch_bytes == 128 ? CU_TENSOR_MAP_L2_PROMOTION_L2_128B : CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) {
    const char* text = nullptr;
    driver().get_error_string(status, &text);
    throw cuda_error{fmt::format("cuTensorMapEncodeTiled: {} for {} elements of {} bytes at {}",
                                 text != nullptr ? text : "unknown error",
                                 fmt::join(boxes.extents, boxes.extents + dims, " x "), boxes.element_bytes,
                                 boxes.base)};
  }
  tensor_map made;
  std::memcpy(&made, &map, sizeof made);
  return made;
}

}  // namespace baton::on_cuda
