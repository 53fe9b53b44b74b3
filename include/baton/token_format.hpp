#pragma once
// How rows of values are stored with fewer bits: formats, where their scales lie, and how many bytes they take.
#include <cstddef>
#include <cstdint>

namespace baton {

/// How the values of a row are stored. In a format with scales, a block of consecutive values of a row shares one.
///
/// | format          | a value | block | a scale | stands for                  | row: multiple of |
/// |-----------------|---------|-------|---------|-----------------------------|------------------|
/// | `bf16`          | bf16    |       |         | value                       | 8 values         |
/// | `blockwise_fp8` | e4m3    | 128   | fp32    | value * scale               | 128              |
/// | `mxfp8`         | e4m3    | 32    | e8m0    | value * scale               | 32               |
/// | `mxfp4`         | e2m1    | 32    | e8m0    | value * scale               | 32               |
/// | `nvfp4`         | e2m1    | 16    | e4m3    | value * scale * t           | 32               |
///
/// Two e2m1 make a byte, the earlier one in its low half. With m the largest magnitude of a block, everything in fp32 and
/// each step rounded to nearest:
/// blockwise_fp8 (DeepSeek-V3's 1x128 blocks): scale = max(m, 1e-4) / 448, value = e4m3(x * (1 / scale)). NaN is left out of m
///   and stays NaN; an infinity makes its whole block NaN.
/// mxfp8, mxfp4 (OCP MX 1.0, 6.3): scale = 2^(floor(log2 m) - e), at least 2^-127, where e is 8 for e4m3 and 2 for e2m1;
///   value = e4m3 or e2m1(x / scale), exact but for the last rounding. What is over 448/512, or 6/8, of the power of two above m
///   saturates.
/// nvfp4 (NVIDIA's two levels), t the tensor scale: scale = e4m3(m * (1 / (6 t))); value = e2m1(x * (1 / (scale * t))), 0 where
///   scale is. t = (the tensor's largest magnitude) / (6 * 448) makes use of all of e4m3; it has to be positive and finite.
/// Values round to nearest, ties to even, and saturate. In mxfp8, mxfp4 and nvfp4 a block that holds a NaN or an infinity has the
/// scale NaN and values 0; a block of zeros has the smallest scale.
enum class token_format { bf16, blockwise_fp8, mxfp8, mxfp4, nvfp4 };

/// As the program's --format spells it.
constexpr const char* name(token_format f) {
  constexpr const char* names[] = {"bf16", "fp8", "mxfp8", "mxfp4", "nvfp4"};
  return f >= token_format::bf16 && f <= token_format::nvfp4 ? names[static_cast<int>(f)] : "no token_format";
}

/// The table above as numbers.
struct format_facts {
  int value_bits = 16;
  int block = 0;        // values that share a scale; 0: there are no scales
  int scale_bytes = 0;  // of one scale
  int multiple = 8;     // of values in a row

  /// Of a row of `values` values.
  constexpr int row_bytes(int values) const { return values / 8 * value_bits; }
  constexpr int row_scales(int values) const { return block == 0 ? 0 : values / block; }
};
constexpr format_facts facts_of(token_format f) {
  constexpr format_facts facts[] = {{}, {8, 128, 4, 128}, {8, 32, 1, 32}, {4, 32, 1, 32}, {4, 16, 1, 32}};
  return facts[static_cast<int>(f)];
}

/// Where the scale of block b of row r lies, of `blocks` blocks a row and `rows` rows, counted in scales.
///
/// | layout         | place                                                                                          |
/// |----------------|------------------------------------------------------------------------------------------------|
/// | `row_major`    | r * blocks + b                                                                                 |
/// | `column_major` | b * rows + r                                                                                   |
/// | `tiled_128x4`  | (r / 128 * ceil(blocks / 4) + b / 4) * 512 + r % 32 * 16 + r % 128 / 32 * 4 + b % 4: what block-scaled   |
/// |                | products of cuBLAS take; scales of one byte only                                               |
enum class scale_layout { row_major, column_major, tiled_128x4 };

constexpr const char* name(scale_layout l) {
  return l == scale_layout::row_major      ? "row_major"
         : l == scale_layout::column_major ? "column_major"
         : l == scale_layout::tiled_128x4  ? "tiled_128x4"
                                           : "no scale_layout";
}

/// The scales of `rows` rows of `blocks` blocks.
struct scale_places {
  scale_layout layout = scale_layout::row_major;
  int rows = 0;
  int blocks = 0;

  constexpr std::int64_t at(int row, int block) const {
    if (layout == scale_layout::row_major) return std::int64_t{row} * blocks + block;
    if (layout == scale_layout::column_major) return std::int64_t{block} * rows + row;
    return (std::int64_t{row / 128} * tiles_across() + block / 4) * 512 + row % 32 * 16 + row % 128 / 32 * 4 +
           block % 4;
  }
  /// How many there is room for; with tiled_128x4 the last tile is whole.
  constexpr std::int64_t count() const {
    if (layout != scale_layout::tiled_128x4) return std::int64_t{rows} * blocks;
    return std::int64_t{(rows + 127) / 128} * tiles_across() * 512;
  }

 private:
  constexpr int tiles_across() const { return (blocks + 3) / 4; }
};

}  // namespace baton
