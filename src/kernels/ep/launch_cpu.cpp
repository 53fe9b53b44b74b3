#include "kernels/ep/launch_cpu.hpp"

#include "kernels/ep/select.hpp"
#include "runtime/world_state.hpp"
#include "sim/context.hpp"

namespace baton::ep {

template <class Params>
void launch_cpu(const world& w, const launch_config& c, const Params& p) {
  select(c, p, [&]<class Kernel>(std::size_t shared_bytes) {
    const sim::grid grid{c.blocks, c.threads / warp_lanes, shared_bytes, c.limits};
    w.state().machine->launch(w.rank(), grid, [p](sim::context& x) { Kernel::run(x, p); });
  });
}

template void launch_cpu(const world&, const launch_config&, const dispatch_async_params<>&);
template void launch_cpu(const world&, const launch_config&, const dispatch_wait_params&);
template void launch_cpu(const world&, const launch_config&, const combine_async_params&);
template void launch_cpu(const world&, const launch_config&, const combine_wait_params<store_fp32>&);
template void launch_cpu(const world&, const launch_config&, const combine_wait_params<store_bf16>&);
template void launch_cpu(const world&, const launch_config&, const combine_wait_params<store_unreduced>&);

}  // namespace baton::ep
