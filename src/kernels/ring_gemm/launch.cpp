#include "kernels/ring_gemm/launch.hpp"

#include "kernels/launch.hpp"
#include "kernels/ring_gemm/kernel.hpp"

namespace baton::ring_gemm_kernels {
namespace {

template <class Kernel>
void launch_as(const world& w, int num_sms, const params& p, stream_ref stream) {
  constexpr config c = Kernel::c;
  const int tiles = tile_walk{p.m, p.n, c.block_m(), c.block_n()}.size();
  const launch_grid grid{.blocks = smaller(tiles, num_sms * c.blocks_per_sm),
                         .threads = c.threads(),
                         .shared_bytes = Kernel::shared_bytes};
  baton::launch<Kernel>(w, grid, p, stream);
}

template <ring_strategy S>
void launch_with(const world& w, const launch_config& c, const params& p, stream_ref stream) {
  if (c.large)
    launch_as<large_kernel<S>>(w, c.num_sms, p, stream);
  else
    launch_as<small_kernel<S>>(w, c.num_sms, p, stream);
}

}  // namespace

void launch(const world& w, const launch_config& c, const params& p, stream_ref stream) {
  switch (c.strategy) {
    case ring_strategy::single_counter:
      return launch_with<ring_strategy::single_counter>(w, c, p, stream);
    case ring_strategy::split_counter:
      return launch_with<ring_strategy::split_counter>(w, c, p, stream);
    case ring_strategy::per_reader_flags:
      return launch_with<ring_strategy::per_reader_flags>(w, c, p, stream);
    default:
      return launch_with<ring_strategy::mbarrier>(w, c, p, stream);
  }
}

}  // namespace baton::ring_gemm_kernels
