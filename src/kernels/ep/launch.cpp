#include "kernels/ep/launch.hpp"

#include "baton/error.hpp"
#include "kernels/ep/launch_cpu.hpp"
#include "kernels/ep/launch_cuda.hpp"

namespace baton::ep {
namespace {

template <class Params>
void launch_on_device(const world& w, const launch_config& c, const Params& p, stream_ref stream) {
  if (w.device() == device_kind::cpu) return launch_cpu(w, c, p);
#if defined(BATON_CUDA)
  launch_cuda(w, c, p, stream);
#else
  static_cast<void>(stream);
  throw unsupported{"this build of baton has no CUDA; build with -DBATON_CUDA=ON"};
#endif
}

}  // namespace

void launch(const world& w, const launch_config& c, const dispatch_async_params<>& p, stream_ref stream) {
  launch_on_device(w, c, p, stream);
}
void launch(const world& w, const launch_config& c, const dispatch_wait_params& p, stream_ref stream) {
  launch_on_device(w, c, p, stream);
}
void launch(const world& w, const launch_config& c, const combine_async_params& p, stream_ref stream) {
  launch_on_device(w, c, p, stream);
}
void launch(const world& w, const launch_config& c, const combine_wait_params<store_fp32>& p,
            stream_ref stream) {
  launch_on_device(w, c, p, stream);
}
void launch(const world& w, const launch_config& c, const combine_wait_params<store_bf16>& p,
            stream_ref stream) {
  launch_on_device(w, c, p, stream);
}
void launch(const world& w, const launch_config& c, const combine_wait_params<store_unreduced>& p,
            stream_ref stream) {
  launch_on_device(w, c, p, stream);
}

}  // namespace baton::ep
