#include "cli/model/fp8_tensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "base/math.hpp"
#include "baton/device_facts.hpp"
#include "baton/weight_format.hpp"

namespace baton::model {
namespace {

/// The first value of a matrix that is not as it should be.
[[noreturn]] void bad_value(const tensor_view& tensor, std::ptrdiff_t at, const char* expected, float found) {
  const std::int64_t columns = tensor.shape.back();
  throw bad_file{fmt::format("{}: tensor {}: expected {}, found {} at [{}, {}]", tensor.file(), tensor.name,
                             expected, found, at / columns, at % columns)};
}

}  // namespace

tensor_shape scale_shape(const tensor_shape& matrix) {
  const auto blocks = [](std::int64_t n) { return ceil_div<std::int64_t>(n, weight_block); };
  return {blocks(matrix.at(0)), blocks(matrix.at(1))};
}

std::vector<float8_e4m3> to_e4m3(const tensor_view& tensor) {
  require_host_memory(tensor.size, {fmt::format("tensor {} of {}", tensor.name, tensor.file()),
                                    "use more ranks, so that each holds fewer experts"});
  std::vector<float8_e4m3> values(tensor.size);
  tensor.read(0, std::as_writable_bytes(std::span{values}));
  const auto nan =
      std::find_if(values.begin(), values.end(), [](float8_e4m3 v) { return (v.bits & 0x7f) == 0x7f; });
  if (nan != values.end()) bad_value(tensor, nan - values.begin(), "numbers", static_cast<float>(*nan));
  return values;
}

std::vector<float> to_scales(const tensor_view& scales) {
  std::vector<float> values = to_float(scales);
  const auto bad =
      std::find_if(values.begin(), values.end(), [](float v) { return !(v >= 0) || !std::isfinite(v); });
  if (bad != values.end())
    bad_value(scales, bad - values.begin(), "finite scales that are not negative", *bad);
  return values;
}

std::vector<float> to_float(const tensor_view& matrix, const tensor_view& scales) {
  const std::vector<float8_e4m3> values = to_e4m3(matrix);
  const std::vector<float> of_blocks = to_scales(scales);
  require_host_memory(values.size() * sizeof(float),
                      {fmt::format("tensor {} of {}", matrix.name, matrix.file()), "use a smaller model"});
  const auto columns = static_cast<std::size_t>(matrix.shape[1]),
             blocks = static_cast<std::size_t>(scales.shape[1]);
  std::vector<float> all(values.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<float>(values[i]) *
             of_blocks[i / columns / weight_block * blocks + i % columns / weight_block];
  return all;
}

}  // namespace baton::model
