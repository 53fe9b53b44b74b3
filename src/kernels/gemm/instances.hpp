#pragma once
// The configurations of the product of groups that are compiled for GPUs.
#include <type_traits>

#include "base/constant.hpp"
#include "baton/gemm_config.hpp"
#include "kernels/gemm/params.hpp"

namespace baton::gemm_kernels {

template <class Config>
struct gemm_kernel;  // kernel.hpp

template <class In>
inline constexpr operand_type type_of = std::is_same_v<In, float16>       ? operand_type::fp16
                                        : std::is_same_v<In, float8_e4m3> ? operand_type::e4m3
                                                                          : operand_type::bf16;

/// As many slots as fit. A narrow tile of 16-bit results is stored at once.
constexpr config config_of(gemm_tiles tiles, bool float_out, bool epilogue,
                           operand_type in = operand_type::bf16) {
  config c{.float_out = float_out, .epilogue = epilogue, .in = in};
  if (tiles == gemm_tiles::paired) return c;
  c.cluster = 1;
  if (tiles == gemm_tiles::medium) c.columns = 128, c.stages = 6;
  if (tiles == gemm_tiles::narrow) c.columns = 64, c.stages = 8, c.places = float_out ? 2 : 1;
  return c;
}

/// Of groups: blocks alone, as half of a pair has nothing to do where a group has few rows.
constexpr config make_group_config(operand_type in, bool listed, bool epilogue) {
  config c = config_of(gemm_tiles::wide, false, epilogue, in);
  c.grouped = true;
  c.evenly = true;
  c.listed = listed;
  return c;
}
template <class In, bool listed, bool epilogue = false>
inline constexpr config group_config = make_group_config(type_of<In>, listed, epilogue);
template <class In, bool listed, bool epilogue = false>
using group_kernel = gemm_kernel<constant<group_config<In, listed, epilogue>>>;

/// Of e4m3 with scales: the results of a tile go through one place of each warp, as registers and slots leave no more; two of
/// dense tiles, for which there is room where no groups' tiles are noted.
constexpr config make_scaled_config(gemm_tiles tiles, bool grouped, bool listed, bool epilogue) {
  config c = config_of(tiles, false, epilogue, operand_type::e4m3);
  c.grouped = grouped;
  c.evenly = grouped && !listed;
  c.listed = listed;
  c.places = !grouped && tiles == gemm_tiles::paired ? 2 : 1;
  return c;
}
/// Dense ones have paired and medium tiles: what a slot has of B shares its scales.
template <gemm_tiles tiles, bool epilogue = false>
inline constexpr config scaled_config = make_scaled_config(tiles, false, false, epilogue);
/// With a list in tiles of 128 columns: in those of 256 ptxas spills 24 bytes.
template <bool listed, bool epilogue = false>
inline constexpr config scaled_group_config = make_scaled_config(listed ? gemm_tiles::medium
                                                                        : gemm_tiles::wide,
                                                                 true, listed, epilogue);

/// silu(A * gate^T) . (A * up^T) of groups; C of e4m3 leaves with its scales. With an epilogue biases and another gate are
/// looked at.
constexpr config make_gated_config(bool block_scaled, bool listed, bool epilogue) {
  config c = block_scaled ? make_scaled_config(gemm_tiles::wide, true, listed, epilogue)
                          : make_group_config(operand_type::bf16, listed, epilogue);
  c.gated = true;
  c.evenly = true;
  return c;
}
template <bool block_scaled, bool listed, bool epilogue = false>
inline constexpr config gated_config = make_gated_config(block_scaled, listed, epilogue);
template <bool block_scaled, bool listed, bool epilogue = false>
using gated_kernel = gemm_kernel<constant<gated_config<block_scaled, listed, epilogue>>>;

/// Blocks that share out k: narrow tiles, as what blocks send each other takes longest, and as many slots as leave room for it.
/// Those of e4m3 may be medium, too: more rows make enough tiles of these.
constexpr config make_split_config(bool float_out, operand_type in, gemm_tiles tiles, bool epilogue) {
  config c = config_of(tiles, float_out, epilogue || in != operand_type::e4m3, in);
  c.split = true;
  c.stages = tiles == gemm_tiles::medium ? 4 : float_out ? 6 : 7;
  if (in == operand_type::e4m3) c.places = 1;
  return c;
}
template <class Out, class In, gemm_tiles tiles = gemm_tiles::narrow, bool epilogue = false>
inline constexpr config split_config = make_split_config(std::is_same_v<Out, float>, type_of<In>, tiles,
                                                         epilogue);
template <class Out, class In, gemm_tiles tiles = gemm_tiles::narrow, bool epilogue = false>
using split_kernel = gemm_kernel<constant<split_config<Out, In, tiles, epilogue>>>;

template <gemm_tiles tiles, bool epilogue = false>
using scaled_kernel = gemm_kernel<constant<scaled_config<tiles, epilogue>>>;
template <bool listed, bool epilogue = false>
using scaled_group_kernel = gemm_kernel<constant<scaled_group_config<listed, epilogue>>>;

/// Products of fp16 have one kernel, with and without an epilogue, to be compiled once.
template <class Out, class In, gemm_tiles tiles, bool epilogue>
inline constexpr config dense_config = config_of(tiles, std::is_same_v<Out, float>,
                                                 epilogue || std::is_same_v<In, float16>, type_of<In>);
template <class Out, class In, gemm_tiles tiles, bool epilogue>
using kernel_of = gemm_kernel<constant<dense_config<Out, In, tiles, epilogue>>>;

}  // namespace baton::gemm_kernels
