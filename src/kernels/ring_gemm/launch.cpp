#include "kernels/ring_gemm/launch.hpp"

#include "base/constant.hpp"
#include "baton/error.hpp"
#include "kernels/ring_gemm/kernel.hpp"
#include "kernels/ring_gemm/launch_cuda.hpp"
#include "runtime/world_state.hpp"
#include "sim/context.hpp"

namespace baton::ring_gemm_kernels {
namespace {

void launch_cpu(const world& w, const launch_config& c, const params& p) {
  with_config(c.strategy, c.large, [&]<config C>() {
    const int tiles = tile_walk{p.m, p.n, C.block_m(), C.block_n()}.size();
    const sim::grid grid{.blocks = smaller(tiles, c.num_sms),
                         .warps = C.roles.warps(),
                         .shared_bytes = static_cast<std::size_t>(plan<C>().bytes),
                         .limits = p.limits};
    w.state().machine->launch(w.rank(), grid,
                              [p](sim::context& x) { ring_gemm_kernel<constant<C>>::run(x, p); });
  });
}

}  // namespace

void launch(const world& w, const launch_config& c, const params& p, stream_ref stream) {
  if (w.device() == device_kind::cpu) return launch_cpu(w, c, p);
#if defined(BATON_CUDA)
  launch_cuda(w, c, p, stream);
#else
  static_cast<void>(stream);
  throw unsupported{"this build of baton has no CUDA; build with -DBATON_CUDA=ON"};
#endif
}

}  // namespace baton::ring_gemm_kernels
