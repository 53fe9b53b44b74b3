// Attention of keys in pages, compiled for GPUs.
#include "device/entry.cuh"
#include "kernels/attention/instances.hpp"
#include "kernels/attention/kernel.hpp"

namespace baton {

using attention_kernels::kernel_of;
using attention_kernels::paged_params;

#define BATON_PAGED_ATTENTION(head_dim, page_rows)                             \
  BATON_KERNEL(kernel_of<bfloat16, head_dim, false, page_rows>, paged_params); \
  BATON_KERNEL(kernel_of<bfloat16, head_dim, true, page_rows>, paged_params);  \
  BATON_KERNEL(kernel_of<float16, head_dim, false, page_rows>, paged_params);  \
  BATON_KERNEL(kernel_of<float16, head_dim, true, page_rows>, paged_params)

BATON_PAGED_ATTENTION(128, 16);
BATON_PAGED_ATTENTION(128, 32);
BATON_PAGED_ATTENTION(256, 16);
BATON_PAGED_ATTENTION(256, 32);
BATON_PAGED_ATTENTION(512, 16);
BATON_PAGED_ATTENTION(512, 32);

}  // namespace baton
