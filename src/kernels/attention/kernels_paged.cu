// Attention of keys in pages, compiled for GPUs.
#include "device/entry.cuh"
#include "kernels/attention/instances.hpp"
#include "kernels/attention/kernel.hpp"

namespace baton {

using attention_kernels::kernel_of;
using attention_kernels::paged_params;

#define BATON_PAGED_ATTENTION(head_dim)                                   \
  BATON_KERNEL(kernel_of<bfloat16, head_dim, false, true>, paged_params); \
  BATON_KERNEL(kernel_of<bfloat16, head_dim, true, true>, paged_params);  \
  BATON_KERNEL(kernel_of<float16, head_dim, false, true>, paged_params);  \
  BATON_KERNEL(kernel_of<float16, head_dim, true, true>, paged_params)

BATON_PAGED_ATTENTION(128);
BATON_PAGED_ATTENTION(256);
BATON_PAGED_ATTENTION(512);

}  // namespace baton
