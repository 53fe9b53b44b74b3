#pragma once
namespace baton {

/// How the values of a weight matrix [n, k] are stored.
///
/// | format      | value | scales                                                | a weight is   | k           |
/// |-------------|-------|-------------------------------------------------------|---------------|-------------|
/// | `bf16`      | bf16  |                                                       | value         | contiguous  |
/// | `block_fp8` | e4m3  | fp32 [ceil(n / 128), ceil(k / 128)], one a 128x128    | value * scale | contiguous  |
///
/// block_fp8 is what checkpoints of DeepSeek-V3 have: their scales are named weight_scale_inv. `baton quantize` writes it.
enum class weight_format { bf16, block_fp8 };

constexpr const char* name(weight_format f) {
  return f == weight_format::bf16 ? "bf16" : f == weight_format::block_fp8 ? "fp8" : "no weight_format";
}

inline constexpr int weight_block =
    128;  // rows, and columns, that share a scale of block_fp8; the last may be fewer

/// Scales along `values` rows or columns.
constexpr int weight_scales(int values) {
  return values / weight_block + (values % weight_block == 0 ? 0 : 1);
}

}  // namespace baton
