#include "kernels/attention/launch.hpp"

#include "baton/error.hpp"
#include "kernels/attention/arguments.hpp"
#include "kernels/attention/cpu.hpp"
#include "kernels/attention/instances.hpp"
#include "kernels/attention/params.hpp"
#include "kernels/attention/support.hpp"
#include "kernels/decode_attention/launch.hpp"
#include "runtime/launch_on_cuda.hpp"
#include "runtime/tensor_map.hpp"
#include "runtime/world_state.hpp"
#include "sim/machine.hpp"

namespace baton::attention_kernels {
namespace {

/// On a GPU, calls of few rows go to the kernel that shares keys out, where it takes them; others to the one of many rows.
template <class Asked>
bool is_of_few_rows(const Asked& asked) {
  return decode_attention::has_few_rows(asked) && decode_attention::why_not(asked).empty();
}

template <class Asked>
std::string why_not(device_kind device, const Asked& asked) {
  if (device == device_kind::cpu || is_of_few_rows(asked)) return {};
  std::string reason;
  if constexpr (Asked::is_e4m3)
    reason = decode_attention::why_not(asked);
  else
    reason = why_not_on_cuda(asked);
  return reason.empty() ? reason : std::string{asked.call()} + ": " + reason;
}

template <class Asked>
std::size_t scratch_of(device_kind device, const Asked& asked) {
  if (const std::string reason = why_not(device, asked); !reason.empty()) throw unsupported{reason};
  return device == device_kind::cuda && is_of_few_rows(asked) ? decode_attention::scratch_bytes(asked) : 0;
}

/// A block, or a pair, for each block of rows.
template <config C, class Value>
void launch_as(const world& w, const operands<Value>& asked, stream_ref stream) {
  const auto p = params_of<C>(asked, [&](const tensor_boxes& boxes) { return make_tensor_map(w, boxes); });
  const launch_grid grid{.blocks = p.order.blocks * p.order.all_heads * C.blocks(),
                         .threads = num_warps * warp_lanes,
                         .shared_bytes = block_plan<C>{}.bytes,
                         .cluster = C.blocks(),
                         .begins_early = true};
  launch_on_cuda<attention_kernel<constant<C>>>(w, grid, p, w.state().limits(), stream);
}

template <bool softcap, bool paged, class Value>
void launch_of(const world& w, const operands<Value>& asked, stream_ref stream) {
  const int dim = kernel_dim_of(asked.head_dim);
  if (dim == 128)
    launch_as<config_of<Value, 128, softcap, paged>>(w, asked, stream);
  else if (dim == 256)
    launch_as<config_of<Value, 256, softcap, paged>>(w, asked, stream);
  else
    launch_as<config_of<Value, 512, softcap, paged>>(w, asked, stream);
}
template <bool softcap, class Value>
void launch(const world& w, const operands<Value>& asked, stream_ref stream) {
  asked.paged ? launch_of<softcap, true>(w, asked, stream) : launch_of<softcap, false>(w, asked, stream);
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
  if (asked.total_q == 0 || asked.batch == 0 || asked.q_len == 0) return;
  require_memory(asked, scratch, bytes);
  if (w.device() == device_kind::cuda && is_of_few_rows(asked))
    return decode_attention::launch(w, asked, scratch, stream);
  if constexpr (!decltype(asked)::is_e4m3) {
    if (w.device() == device_kind::cuda)
      return asked.softcap > 0 ? launch<true>(w, asked, stream) : launch<false>(w, asked, stream);
  }
  w.state().machine->host(
      w.rank(), [asked] { attention_cpu::run(asked); }, stream.native);
}

template attention_support support_of(device_kind, const varlen_attention_problem<bfloat16>&);
template attention_support support_of(device_kind, const varlen_attention_problem<float16>&);
template attention_support support_of(device_kind, const paged_attention_problem<bfloat16>&);
template attention_support support_of(device_kind, const paged_attention_problem<float16>&);
template attention_support support_of(device_kind, const paged_attention_problem<bfloat16, float8_e4m3>&);
template attention_support support_of(device_kind, const paged_attention_problem<float16, float8_e4m3>&);
template std::size_t scratch_bytes(device_kind, const varlen_attention_problem<bfloat16>&);
template std::size_t scratch_bytes(device_kind, const varlen_attention_problem<float16>&);
template std::size_t scratch_bytes(device_kind, const paged_attention_problem<bfloat16>&);
template std::size_t scratch_bytes(device_kind, const paged_attention_problem<float16>&);
template std::size_t scratch_bytes(device_kind, const paged_attention_problem<bfloat16, float8_e4m3>&);
template std::size_t scratch_bytes(device_kind, const paged_attention_problem<float16, float8_e4m3>&);
template void run(const world&, const varlen_attention_problem<bfloat16>&, void*, stream_ref);
template void run(const world&, const varlen_attention_problem<float16>&, void*, stream_ref);
template void run(const world&, const paged_attention_problem<bfloat16>&, void*, stream_ref);
template void run(const world&, const paged_attention_problem<float16>&, void*, stream_ref);
template void run(const world&, const paged_attention_problem<bfloat16, float8_e4m3>&, void*, stream_ref);
template void run(const world&, const paged_attention_problem<float16, float8_e4m3>&, void*, stream_ref);

}  // namespace baton::attention_kernels
