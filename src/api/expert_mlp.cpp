#include "baton/expert_mlp.hpp"

#include <fmt/format.h>

#include "baton/error.hpp"
#include "kernels/expert_mlp/cpu.hpp"
#include "kernels/expert_mlp/launch.hpp"
#include "runtime/world_state.hpp"
#include "sim/machine.hpp"

namespace baton {
namespace {

void require_matching(const expert_weights& w, const received_tokens& rows) {
  if (w.num_local_experts != rows.num_local_experts)
    throw invalid_argument{fmt::format("weights: {} experts, but the rows belong to {}", w.num_local_experts,
                                       rows.num_local_experts)};
  if (w.hidden <= 0 || w.hidden % 8 != 0 || w.intermediate <= 0 || w.intermediate % 8 != 0)
    throw invalid_argument{fmt::format(
        "weights: hidden {} and intermediate {} must be positive multiples of 8", w.hidden, w.intermediate)};
}

}  // namespace

std::size_t expert_mlp_scratch_bytes(const expert_weights& weights, int max_rows, device_kind device) {
  return device == device_kind::cuda ? expert_mlp_cuda::scratch_bytes(weights, max_rows) : 0;
}

void expert_mlp(const world& world, const expert_weights& weights, const received_tokens& rows, bfloat16* out,
                void* scratch, stream_ref stream) {
  require_matching(weights, rows);
  if (world.device() == device_kind::cpu) {
    world.state().machine->host(world.rank(),
                                [weights, rows, out] { expert_mlp_cpu::run(weights, rows, out); });
    return;
  }
  expert_mlp_cuda::run(world, weights, rows, out, scratch, stream);
}

}  // namespace baton
