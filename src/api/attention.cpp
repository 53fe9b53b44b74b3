#include "baton/attention.hpp"

#include "kernels/attention/launch.hpp"

namespace baton {

attention_support supports(device_kind device, const varlen_attention_problem<bfloat16>& problem) {
  return attention_kernels::support_of(device, problem);
}
attention_support supports(device_kind device, const varlen_attention_problem<float16>& problem) {
  return attention_kernels::support_of(device, problem);
}
attention_support supports(device_kind device, const paged_attention_problem<bfloat16>& problem) {
  return attention_kernels::support_of(device, problem);
}
attention_support supports(device_kind device, const paged_attention_problem<float16>& problem) {
  return attention_kernels::support_of(device, problem);
}
attention_support supports(device_kind device,
                           const paged_attention_problem<bfloat16, float8_e4m3>& problem) {
  return attention_kernels::support_of(device, problem);
}
attention_support supports(device_kind device, const paged_attention_problem<float16, float8_e4m3>& problem) {
  return attention_kernels::support_of(device, problem);
}

std::size_t attention_scratch_bytes(device_kind device, const varlen_attention_problem<bfloat16>& problem) {
  return attention_kernels::scratch_bytes(device, problem);
}
std::size_t attention_scratch_bytes(device_kind device, const varlen_attention_problem<float16>& problem) {
  return attention_kernels::scratch_bytes(device, problem);
}
std::size_t attention_scratch_bytes(device_kind device, const paged_attention_problem<bfloat16>& problem) {
  return attention_kernels::scratch_bytes(device, problem);
}
std::size_t attention_scratch_bytes(device_kind device, const paged_attention_problem<float16>& problem) {
  return attention_kernels::scratch_bytes(device, problem);
}
std::size_t attention_scratch_bytes(device_kind device,
                                    const paged_attention_problem<bfloat16, float8_e4m3>& problem) {
  return attention_kernels::scratch_bytes(device, problem);
}
std::size_t attention_scratch_bytes(device_kind device,
                                    const paged_attention_problem<float16, float8_e4m3>& problem) {
  return attention_kernels::scratch_bytes(device, problem);
}

void varlen_attention(const world& world, const varlen_attention_problem<bfloat16>& problem, void* scratch,
                      stream_ref stream) {
  attention_kernels::run(world, problem, scratch, stream);
}
void varlen_attention(const world& world, const varlen_attention_problem<float16>& problem, void* scratch,
                      stream_ref stream) {
  attention_kernels::run(world, problem, scratch, stream);
}
void paged_attention(const world& world, const paged_attention_problem<bfloat16>& problem, void* scratch,
                     stream_ref stream) {
  attention_kernels::run(world, problem, scratch, stream);
}
void paged_attention(const world& world, const paged_attention_problem<float16>& problem, void* scratch,
                     stream_ref stream) {
  attention_kernels::run(world, problem, scratch, stream);
}
void paged_attention(const world& world, const paged_attention_problem<bfloat16, float8_e4m3>& problem,
                     void* scratch, stream_ref stream) {
  attention_kernels::run(world, problem, scratch, stream);
}
void paged_attention(const world& world, const paged_attention_problem<float16, float8_e4m3>& problem,
                     void* scratch, stream_ref stream) {
  attention_kernels::run(world, problem, scratch, stream);
}

}  // namespace baton
