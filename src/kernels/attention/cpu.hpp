#pragma once
// Attention on host memory, in loops.
#include "kernels/attention/operands.hpp"

namespace baton::attention_cpu {

/// See baton::varlen_attention and baton::paged_attention. Reads lengths and page tables when called.
template <class Value, class Cache>
void run(const attention_kernels::operands<Value, Cache>& asked);

extern template void run(const attention_kernels::operands<bfloat16>&);
extern template void run(const attention_kernels::operands<float16>&);
extern template void run(const attention_kernels::operands<bfloat16, float8_e4m3>&);
extern template void run(const attention_kernels::operands<float16, float8_e4m3>&);

}  // namespace baton::attention_cpu
