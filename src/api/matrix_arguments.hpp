#pragma once
// What every product of matrices asks of its arguments.
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>

#include "base/math.hpp"
#include "baton/activation.hpp"
#include "baton/error.hpp"
#include "baton/gemm_config.hpp"

namespace baton {

/// Row and column numbers, and those of k a few rows on, are ints in kernels.
inline constexpr int largest_extent = 1 << 28;

inline void require_extent(const char* name, int value) {
  if (value < 0 || value > largest_extent)
    throw invalid_argument{fmt::format("{}: {} is outside [0, {}]", name, value, largest_extent)};
}

/// What tensor maps ask of a matrix, and of its rows: the copy engine moves rows that begin at multiples of 16 bytes.
inline constexpr std::size_t matrix_alignment = 16;

/// A number of values in a row of `of`.
inline void require_row(const char* name, int value, const char* of, int row_multiple = 8) {
  require_extent(name, value);
  if (value % row_multiple != 0)
    throw invalid_argument{fmt::format("{}: {} is not a multiple of {}; pad the rows of {} with zeros to {}",
                                       name, value, row_multiple, of, align_up(value, row_multiple))};
}

inline void require_result(int m, int n) {
  constexpr std::int64_t largest = std::int64_t{1} << 40;
  if (std::int64_t{m} * n > largest)
    throw invalid_argument{fmt::format("c: {} x {} are more than {} values", m, n, largest)};
}

/// `split_tiles`: beside automatic, those that may share out k, if any.
inline void require_config(const gemm_config& c, gemm_tiles split_tiles = gemm_tiles::automatic) {
  const int tiles = static_cast<int>(c.tiles);
  if (tiles < 0 || tiles > static_cast<int>(gemm_tiles::narrow))
    throw invalid_argument{fmt::format("tiles: {} is no gemm_tiles", tiles)};
  if (c.splits != 0 && c.splits != 1 && c.splits != 2 && c.splits != 4 && c.splits != 8)
    throw invalid_argument{
        fmt::format("splits: {}, expected 1, 2, 4 or 8, or 0 for what is quickest", c.splits)};
  if (c.splits > 1 && c.tiles != gemm_tiles::automatic && c.tiles != split_tiles)
    throw invalid_argument{fmt::format("tiles: {}, expected automatic{} where splits is {}", name(c.tiles),
                                       split_tiles == gemm_tiles::medium ? " or medium" : "", c.splits)};
  if (c.num_sms < 0) throw invalid_argument{fmt::format("num_sms: {} must not be negative", c.num_sms)};
}

/// `extents` names those of the matrix, as "[m, n]".
inline void require_matrix(const char* name, const void* at, std::size_t alignment, const char* extents,
                           int rows, int columns) {
  if (at == nullptr)
    throw invalid_argument{
        fmt::format("{}: null, expected memory of {} = [{}, {}]", name, extents, rows, columns)};
  if (reinterpret_cast<std::uintptr_t>(at) % alignment != 0)
    throw invalid_argument{fmt::format("{}: {} is not a multiple of {} bytes", name, at, alignment)};
}

/// What a product ends in, before anybody knows whether there is something to multiply.
inline void require_ending(activation act, const void* bias, const float* fp32_bias) {
  const int number = static_cast<int>(act);
  if (number < 0 || number > static_cast<int>(activation::gelu))
    throw invalid_argument{fmt::format("act: {} is no activation", number)};
  if (bias != nullptr && fp32_bias != nullptr)
    throw invalid_argument{"bias and fp32_bias: both are given, expected one of them at most"};
}
/// A bias of each of `rows` columns of c, or for each group, if there is one.
inline void require_biases(const void* bias, const float* fp32_bias, const char* extents, int rows, int n) {
  if (bias != nullptr) require_matrix("bias", bias, matrix_alignment, extents, rows, n);
  if (fp32_bias != nullptr) require_matrix("fp32_bias", fp32_bias, matrix_alignment, extents, rows, n);
}

}  // namespace baton
