#include "kernels/launch.hpp"

#include <utility>

namespace baton {

void launch_on_cpu(const world& w, const launch_grid& g, std::function<void(sim::context&)> kernel,
                   stream_ref stream) {
  if (g.only_loads) return;
  const detail::world_state& state = w.state();
  const sim::grid grid{g.blocks, g.threads / warp_lanes, g.shared_bytes, state.limits(g.slot), g.cluster};
  state.machine->launch(state.rank, grid, std::move(kernel), stream.native);
}

}  // namespace baton
