#pragma once
// What is asked of the arguments, checked on the host before anything is enqueued.
#include "kernels/attention/operands.hpp"

namespace baton::attention_kernels {

/// The problem in one form, with every step as it is. Pointers are passed on unseen.
/// @throws invalid_argument  the first size or choice that is wrong, by name and value
template <class Value>
operands<Value> operands_of(const varlen_attention_problem<Value>& problem);
template <class Value, class Cache>
operands<Value, Cache> operands_of(const paged_attention_problem<Value, Cache>& problem);

/// Memory of a problem that has rows to compute.
/// @throws invalid_argument  the first pointer that is null or misaligned, by name and value
template <class Asked>
void require_memory(const Asked& asked, const void* scratch, std::size_t scratch_bytes);

extern template operands<bfloat16> operands_of(const varlen_attention_problem<bfloat16>&);
extern template operands<float16> operands_of(const varlen_attention_problem<float16>&);
extern template operands<bfloat16> operands_of(const paged_attention_problem<bfloat16>&);
extern template operands<float16> operands_of(const paged_attention_problem<float16>&);
extern template operands<bfloat16, float8_e4m3> operands_of(
    const paged_attention_problem<bfloat16, float8_e4m3>&);
extern template operands<float16, float8_e4m3> operands_of(
    const paged_attention_problem<float16, float8_e4m3>&);
extern template void require_memory(const operands<bfloat16>&, const void*, std::size_t);
extern template void require_memory(const operands<float16>&, const void*, std::size_t);
extern template void require_memory(const operands<bfloat16, float8_e4m3>&, const void*, std::size_t);
extern template void require_memory(const operands<float16, float8_e4m3>&, const void*, std::size_t);

}  // namespace baton::attention_kernels
