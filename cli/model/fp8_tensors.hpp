#pragma once
// Tensors of e4m3 with a scale for each block of 128x128, as DeepSeek-V3's checkpoints have them: weight_format::block_fp8.
#include <string>
#include <vector>

#include "cli/model/safetensors.hpp"

namespace baton::model {

/// Of the tensor that has the scales of the tensor `name`.
inline std::string scale_name(const std::string& name) {
  return name + "_scale_inv";
}

/// [ceil(n / 128), ceil(k / 128)] of a matrix [n, k].
tensor_shape scale_shape(const tensor_shape& matrix);

/// Bit for bit. @throws bad_file  a value is NaN: says where
std::vector<float8_e4m3> to_e4m3(const tensor_view& tensor);

/// @throws bad_file  a scale is not finite, or negative: says where
std::vector<float> to_scales(const tensor_view& scales);

/// value * scale, as fp32.
std::vector<float> to_float(const tensor_view& matrix, const tensor_view& scales);

}  // namespace baton::model
