#pragma once
// How attention's calls come to the kernel of few rows: whether it takes them, with which memory, and its launch. No device code.
#include <cstddef>
#include <string>

#include "kernels/attention/operands.hpp"

namespace baton::decode_attention {

/// Rows that share a head of K, heads of a group times tokens, of the longest sequence: up to here this kernel takes a call with
/// keys in pages. That is two products' rows, as of 8 tokens of 16 heads: the keys are read twice, the second time from the
/// device's cache. With more, prefill's kernel has as many rows to each key that it reads.
inline constexpr int most_shared_rows = 128;

/// Whether a call on a GPU is one of few rows. Then it goes here, if why_not has nothing against it.
template <class Value>
constexpr bool has_few_rows(const attention_kernels::operands<Value>& asked) {
  return asked.paged && std::int64_t{asked.q_len} * asked.group() <= most_shared_rows;
}

/// Empty: the kernel takes it. Else which argument stands against it, what was found and what to do.
template <class Value>
std::string why_not(const attention_kernels::operands<Value>& asked);

/// Of what why_not takes.
template <class Value>
std::size_t scratch_bytes(const attention_kernels::operands<Value>& asked);

/// Enqueues the kernel on `stream` of the rank's GPU and returns.
/// @throws cuda_error  the launch failed
template <class Value>
void launch(const world& w, const attention_kernels::operands<Value>& asked, void* scratch,
            stream_ref stream);

extern template std::string why_not(const attention_kernels::operands<bfloat16>&);
extern template std::string why_not(const attention_kernels::operands<float16>&);
extern template std::size_t scratch_bytes(const attention_kernels::operands<bfloat16>&);
extern template std::size_t scratch_bytes(const attention_kernels::operands<float16>&);
extern template void launch(const world&, const attention_kernels::operands<bfloat16>&, void*, stream_ref);
extern template void launch(const world&, const attention_kernels::operands<float16>&, void*, stream_ref);

}  // namespace baton::decode_attention
