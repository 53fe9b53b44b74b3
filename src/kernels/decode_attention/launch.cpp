#include "kernels/decode_attention/launch.hpp"

#include <fmt/format.h>

#include <limits>

#include "kernels/decode_attention/instances.hpp"
#include "kernels/decode_attention/params.hpp"
#include "runtime/launch_on_cuda.hpp"
#include "runtime/tensor_map.hpp"
#include "runtime/world_state.hpp"

namespace baton::decode_attention {
namespace {

/// Of the line of work, if each sequence is as long as it may be.
template <class Asked>
std::int64_t most_units(const Asked& asked) {
  return bounded_product(most_items(asked), ceil_div(asked.k_len, unit_keys) + 1);
}

/// As many teams as work at a time, of as many blocks as are wanted, or of fewer where the device has no room for so large ones.
template <class Kernel, class Asked>
launch_grid grid_of(const world& w, const Asked& asked, launch_grid grid) {
  const int sms = sms_for(w, asked.num_sms), most_teams = most_blocks / team_of(asked);
  for (grid.cluster = team_of(asked);; grid.cluster /= 2) {
    const int teams = smaller(most_clusters_on_cuda<Kernel, params>(w, grid), sms / grid.cluster);
    grid.blocks = smaller(larger(teams, 1), most_teams) * grid.cluster;
    if (teams > 0 || grid.cluster == 1) return grid;
  }
}

template <config C, class Asked>
void launch_as(const world& w, const Asked& asked, void* scratch, stream_ref stream) {
  using kernel = decode_kernel<constant<C>>;
  const params p =
      params_of<C>(asked, scratch, [&](const tensor_boxes& boxes) { return make_tensor_map(w, boxes); });
  const launch_grid grid = grid_of<kernel>(
      w, asked,
      {.threads = num_warps * warp_lanes, .shared_bytes = block_plan<C>{}.bytes, .begins_early = true});
  launch_on_cuda<kernel>(w, grid, p, w.state().limits(), stream);
}
template <int rows, class Asked>
void launch_of(const world& w, const Asked& asked, void* scratch, stream_ref stream) {
  using value = typename Asked::value;
  if (asked.head_dim == 256)
    launch_as<config_of<value, 256, rows, Asked::is_e4m3>>(w, asked, scratch, stream);
  else
    launch_as<config_of<value, 512, rows, Asked::is_e4m3>>(w, asked, scratch, stream);
}

}  // namespace

template <class Asked>
std::string why_not(const Asked& asked) {
  if (asked.head_dim != 256 && asked.head_dim != 512)
    return fmt::format("head_dim is {}; kernels for GPUs are of 256 and 512: compute it on a CPU world",
                       asked.head_dim);
  if (!(asked.scale > 0))
    return fmt::format("scale is {}; kernels for GPUs take those above 0: scale q itself", asked.scale);
  if (asked.page_size % piece_keys != 0)
    return fmt::format(
        "page_size is {}; kernels for GPUs take multiples of {}: make pages of that, or use a CPU world",
        asked.page_size, piece_keys);
  if (const std::int64_t steps = cache_steps(asked); steps > std::numeric_limits<std::int32_t>::max())
    return fmt::format(
        "page_stride is {} and heads are {} elements apart: kernels for GPUs tell apart 2^31 places of {} "
        "elements, and there are {}: make page_stride a multiple of a head's step",
        asked.page_step, asked.kv_head_step, step_of_cache(asked), steps);
  if (const std::int64_t units = most_units(asked); units > std::numeric_limits<std::int32_t>::max())
    return fmt::format(
        "batch {}, kv_heads {}, q_len {} in blocks of {} and max_pages * page_size {} make more than 2^31 "
        "times {} "
        "keys in all: say how long the longest sequence is, or make more calls",
        asked.batch, asked.kv_heads, asked.q_len, block_tokens(asked), asked.k_len, unit_keys);
  return {};
}

template <class Asked>
std::size_t scratch_bytes(const Asked& asked) {
  return scratch_of(asked).bytes;
}

template <class Asked>
void launch(const world& w, const Asked& asked, void* scratch, stream_ref stream) {
  if constexpr (Asked::is_e4m3)
    launch_of<16>(w, asked, scratch, stream);
  else
    rows_of(asked) == 16 ? launch_of<16>(w, asked, scratch, stream)
                         : launch_of<64>(w, asked, scratch, stream);
}

#define BATON_DECODE_OPERANDS(...)                                  \
  template std::string why_not(const operands<__VA_ARGS__>&);       \
  template std::size_t scratch_bytes(const operands<__VA_ARGS__>&); \
  template void launch(const world&, const operands<__VA_ARGS__>&, void*, stream_ref)

BATON_DECODE_OPERANDS(bfloat16);
BATON_DECODE_OPERANDS(float16);
BATON_DECODE_OPERANDS(bfloat16, float8_e4m3);
BATON_DECODE_OPERANDS(float16, float8_e4m3);

}  // namespace baton::decode_attention
