#include "kernels/ep/lost_rank/launch.hpp"

#include "kernels/ep/lost_rank/kernel.hpp"
#include "kernels/launch.hpp"
#include "runtime/nvshmem.hpp"

namespace baton::ep::lost_rank {

void launch(const world& w, const loss_words& words, bool has_two_levels, stream_ref stream) {
  const detail::world_state& state = w.state();
  const wait_limits usual = state.limits();
  const params p{words, usual.record, usual.deadline_ns, has_two_levels};
  const wait_limits of_slices{.deadline_ns = usual.deadline_ns / slices_of_deadline};
  if (w.device() == device_kind::cuda)
    return launch_beyond(w, {.what = nvshmem_launch::kernel::lost_rank,
                             .grid = {.blocks = 1, .threads = warp_lanes},
                             .params = &p,
                             .params_bytes = sizeof p,
                             .by = {w.rank(), of_slices},
                             .stream = stream.native});
  state.machine->launch(
      state.rank, sim::grid{.limits = of_slices}, [p](sim::context& x) { run_on_cpu<kernel>(x, p); },
      stream.native);
}

}  // namespace baton::ep::lost_rank
