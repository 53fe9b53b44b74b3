#pragma once
// What the experts keep between their steps on CUDA.
#include <cstddef>

#include "base/math.hpp"
#include "baton/expert_mlp.hpp"

namespace baton::expert_mlp_kernels {

/// Rows are multiplied as they were received if they are values of the weights' type.
constexpr token_format multiplied_as(weight_format weights) {
  return weights == weight_format::bf16 ? token_format::bf16 : token_format::blockwise_fp8;
}

/// Parts of scratch, by their first bytes; each is a multiple of 256.
struct scratch_plan {
  std::size_t rows = 0, row_scales = 0;  // [max_rows, hidden] as they are multiplied, if they did not come so
  std::size_t inner = 0, inner_scales = 0;  // [max_rows, intermediate]
  std::size_t bytes = 0;

  constexpr scratch_plan(const expert_weights& w, const received_tokens& r) {
    const int max_rows = r.max_rows;
    if (r.format != multiplied_as(w.format)) take(w.format, max_rows, r.hidden, rows, row_scales);
    take(w.format, max_rows, w.intermediate, inner, inner_scales);
  }

 private:
  constexpr void take(weight_format format, int max_rows, int columns, std::size_t& values,
                      std::size_t& scales) {
    const auto m = static_cast<std::size_t>(max_rows), n = static_cast<std::size_t>(columns);
    values = bytes;
    bytes += align_up<std::size_t>(m * n * (format == weight_format::bf16 ? 2 : 1), 256);
    scales = bytes;
    if (format == weight_format::block_fp8)
      bytes +=
          align_up<std::size_t>(m * static_cast<std::size_t>(weight_scales(columns)) * sizeof(float), 256);
  }
};

}  // namespace baton::expert_mlp_kernels
