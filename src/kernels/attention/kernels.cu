// Attention of head dimensions up to 128, of 256 and of 512, compiled for GPUs.
#include "device/entry.cuh"
#include "kernels/attention/instances.hpp"
#include "kernels/attention/kernel.hpp"

namespace baton {

using attention_kernels::kernel_of;
using attention_kernels::params;

#define BATON_ATTENTION(head_dim)                             \
  BATON_KERNEL(kernel_of<bfloat16, head_dim, false>, params); \
  BATON_KERNEL(kernel_of<bfloat16, head_dim, true>, params);  \
  BATON_KERNEL(kernel_of<float16, head_dim, false>, params);  \
  BATON_KERNEL(kernel_of<float16, head_dim, true>, params)

BATON_ATTENTION(128);
BATON_ATTENTION(256);
BATON_ATTENTION(512);

}  // namespace baton
