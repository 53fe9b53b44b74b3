// Attention of few rows, of head dimensions 256 and 512, compiled for GPUs.
#include "device/entry.cuh"
#include "kernels/decode_attention/instances.hpp"
#include "kernels/decode_attention/kernel.hpp"

namespace baton {

#define BATON_DECODE_ATTENTION(head_dim, rows)                                                   \
  BATON_KERNEL(decode_attention::kernel_of<bfloat16, head_dim, rows>, decode_attention::params); \
  BATON_KERNEL(decode_attention::kernel_of<float16, head_dim, rows>, decode_attention::params)

#define BATON_DECODE_ATTENTION_OF_E4M3(head_dim)                                                     \
  BATON_KERNEL(decode_attention::kernel_of<bfloat16, head_dim, 16, true>, decode_attention::params); \
  BATON_KERNEL(decode_attention::kernel_of<float16, head_dim, 16, true>, decode_attention::params)

BATON_DECODE_ATTENTION(256, 16);
BATON_DECODE_ATTENTION(256, 64);
BATON_DECODE_ATTENTION(512, 16);
BATON_DECODE_ATTENTION(512, 64);
BATON_DECODE_ATTENTION_OF_E4M3(256);
BATON_DECODE_ATTENTION_OF_E4M3(512);

}  // namespace baton
