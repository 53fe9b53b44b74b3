#pragma once
// The configurations of the product of groups that are compiled for GPUs.
#include <type_traits>

#include "base/constant.hpp"
#include "baton/gemm.hpp"
#include "kernels/gemm/params.hpp"

namespace baton::gemm_kernels {

template <class Config>
struct gemm_kernel;  // kernel.hpp

/// As many slots as fit. A narrow tile of bf16 is stored at once.
constexpr config config_of(gemm_tiles tiles, bool float_out, bool scaled) {
  config c{.float_out = float_out, .scaled = scaled};
  if (tiles == gemm_tiles::paired) return c;
  c.cluster = 1;
  if (tiles == gemm_tiles::medium) c.columns = 128, c.stages = 6;
  if (tiles == gemm_tiles::narrow) c.columns = 64, c.stages = 8, c.places = float_out ? 2 : 1;
  return c;
}

/// Of groups: blocks alone, as half of a pair has nothing to do where a group has few rows.
constexpr config make_group_config() {
  config c = config_of(gemm_tiles::wide, false, false);
  c.grouped = true;
  c.evenly = true;
  return c;
}
inline constexpr config group_config = make_group_config();

using group_kernel = gemm_kernel<constant<group_config>>;

/// Of e4m3 with scales: the results of a tile go through one place of each warp, as registers and slots leave no more. Groups
/// are dealt out in order: with the other way ptxas orders the inner loop so that it takes 22 % longer at k 7168.
constexpr config make_scaled_config(bool grouped) {
  config c = config_of(grouped ? gemm_tiles::wide : gemm_tiles::paired, false, false);
  c.grouped = grouped;
  c.places = 1;
  c.block_scaled = true;
  return c;
}
inline constexpr config scaled_config = make_scaled_config(false),
                        scaled_group_config = make_scaled_config(true);

/// silu(A * gate^T) . (A * up^T) of groups; C of e4m3 leaves with its scales.
constexpr config make_gated_config(bool block_scaled, bool listed) {
  config c = block_scaled ? make_scaled_config(true) : make_group_config();
  c.gated = true;
  c.listed = listed;
  c.evenly = true;
  return c;
}
template <bool block_scaled, bool listed>
inline constexpr config gated_config = make_gated_config(block_scaled, listed);
template <bool block_scaled, bool listed>
using gated_kernel = gemm_kernel<constant<gated_config<block_scaled, listed>>>;

using scaled_kernel = gemm_kernel<constant<scaled_config>>;
using scaled_group_kernel = gemm_kernel<constant<scaled_group_config>>;

template <class Out, gemm_tiles tiles, bool scaled>
using kernel_of = gemm_kernel<constant<config_of(tiles, std::is_same_v<Out, float>, scaled)>>;

}  // namespace baton::gemm_kernels
