#include "baton/expert_mlp.hpp"

#include "kernels/expert_mlp/launch.hpp"

namespace baton {

std::size_t expert_mlp_scratch_bytes(const expert_weights& weights, const received_tokens& rows,
                                     device_kind device) {
  return expert_mlp_kernels::scratch_bytes(weights, rows, device);
}

void expert_mlp(const world& world, const expert_weights& weights, const received_tokens& rows, bfloat16* out,
                void* scratch, stream_ref stream) {
  expert_mlp_kernels::run(world, weights, rows, out, scratch, stream);
}

}  // namespace baton
