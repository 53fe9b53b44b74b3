#include "kernels/ep/per_expert/launch.hpp"

#include "kernels/ep/per_expert/select.hpp"
#include "kernels/launch.hpp"
#include "runtime/nvshmem.hpp"

namespace baton::ep {

template <class Params>
void launch(const world& w, const launch_config& c, const Params& p, stream_ref stream) {
  select(c, p, [&]<class Kernel>(std::size_t shared_bytes) {
    baton::launch<Kernel>(
        w, {.blocks = c.blocks, .threads = c.threads, .shared_bytes = shared_bytes, .slot = c.slot}, p,
        stream);
  });
}

/// Ranks beyond the p2p group are reached through the CPU machine's network, or NVSHMEM.
template <class Params>
void launch_by_put(const world& w, const launch_config& c, const Params& p, nvshmem_launch::kernel what,
                   stream_ref stream) {
  const launch_grid grid{.blocks = c.blocks, .threads = c.threads, .slot = c.slot};
  if (w.device() == device_kind::cuda)
    return launch_beyond(w, {.what = what,
                             .format = static_cast<int>(c.format),
                             .arrival = static_cast<int>(c.arrival),
                             .tokens_are_given = c.tokens_are_given,
                             .grid = grid,
                             .params = &p,
                             .params_bytes = sizeof p,
                             .by = {w.rank(), w.state().limits(c.slot)},
                             .stream = stream.native});
  select(c, p, [&]<class Kernel>(std::size_t shared_bytes) {
    launch_grid with_shared = grid;
    with_shared.shared_bytes = shared_bytes;
    launch_on_cpu<Kernel>(w, with_shared, p, stream);
  });
}
template <>
void launch(const world& w, const launch_config& c, const dispatch_async_params<tensor_scales, peer_puts>& p,
            stream_ref stream) {
  launch_by_put(w, c, p, nvshmem_launch::kernel::dispatch_async, stream);
}
template <>
void launch(const world& w, const launch_config& c, const combine_async_params<peer_puts>& p,
            stream_ref stream) {
  launch_by_put(w, c, p, nvshmem_launch::kernel::combine_async, stream);
}

using config = launch_config;
template void launch(const world&, const config&, const dispatch_async_params<>&, stream_ref);
template void launch(const world&, const config&, const dispatch_wait_params&, stream_ref);
template void launch(const world&, const config&, const combine_async_params<>&, stream_ref);
template void launch(const world&, const config&, const combine_wait_params<store_fp32>&, stream_ref);
template void launch(const world&, const config&, const combine_wait_params<store_bf16>&, stream_ref);
template void launch(const world&, const config&, const combine_wait_params<store_unreduced>&, stream_ref);

}  // namespace baton::ep
