#include "kernels/attention/launch.hpp"

#include "baton/error.hpp"
#include "kernels/attention/arguments.hpp"
#include "kernels/attention/cpu.hpp"
#include "kernels/attention/support.hpp"
#include "runtime/world_state.hpp"
#include "sim/machine.hpp"

namespace baton::attention_kernels {
namespace {

template <class Value>
std::string why_not(device_kind device, const operands<Value>& asked) {
  if (device == device_kind::cpu) return {};
  const std::string reason = why_not_on_cuda(asked);
  return reason.empty() ? reason : std::string{asked.call()} + ": " + reason;
}

template <class Value>
std::size_t scratch_of(device_kind device, const operands<Value>& asked) {
  if (const std::string reason = why_not(device, asked); !reason.empty()) throw unsupported{reason};
  return 0;
}

}  // namespace

template <class Problem>
attention_support support_of(device_kind device, const Problem& problem) {
  try {
    return {why_not(device, operands_of(problem))};
  } catch (const invalid_argument& e) {
    return {e.what()};
  }
}

template <class Problem>
std::size_t scratch_bytes(device_kind device, const Problem& problem) {
  return scratch_of(device, operands_of(problem));
}

template <class Problem>
void run(const world& w, const Problem& problem, void* scratch, stream_ref stream) {
  const auto asked = operands_of(problem);
  const std::size_t bytes = scratch_of(w.device(), asked);
  if (asked.total_q == 0 || asked.batch == 0) return;
  require_memory(asked, scratch, bytes);
  w.state().machine->host(
      w.rank(), [asked] { attention_cpu::run(asked); }, stream.native);
}

template attention_support support_of(device_kind, const varlen_attention_problem<bfloat16>&);
template attention_support support_of(device_kind, const varlen_attention_problem<float16>&);
template attention_support support_of(device_kind, const paged_attention_problem<bfloat16>&);
template attention_support support_of(device_kind, const paged_attention_problem<float16>&);
template std::size_t scratch_bytes(device_kind, const varlen_attention_problem<bfloat16>&);
template std::size_t scratch_bytes(device_kind, const varlen_attention_problem<float16>&);
template std::size_t scratch_bytes(device_kind, const paged_attention_problem<bfloat16>&);
template std::size_t scratch_bytes(device_kind, const paged_attention_problem<float16>&);
template void run(const world&, const varlen_attention_problem<bfloat16>&, void*, stream_ref);
template void run(const world&, const varlen_attention_problem<float16>&, void*, stream_ref);
template void run(const world&, const paged_attention_problem<bfloat16>&, void*, stream_ref);
template void run(const world&, const paged_attention_problem<float16>&, void*, stream_ref);

}  // namespace baton::attention_kernels
