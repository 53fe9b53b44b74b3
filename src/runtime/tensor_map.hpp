#pragma once
// Tensor maps for kernels: what the copy engine of the rank's device is told of a matrix.
#include "baton/world.hpp"
#include "exec/tensor_copy.hpp"

namespace baton {

/// The map of a matrix in memory of the rank's device. Host work alone: may be called while a stream is captured.
/// @throws invalid_argument  the matrix cannot be moved in boxes: names what of the layout and the value
/// @throws cuda_error        the driver refuses
tensor_map make_tensor_map(const world& w, const tensor_layout& layout);
/// The same of boxes of five dimensions.
tensor_map make_tensor_map(const world& w, const tensor_boxes& boxes);

}  // namespace baton
