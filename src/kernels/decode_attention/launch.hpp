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

/// Whether a call on a GPU is one of few rows. Then it goes here, if why_not has nothing against it. Of a cache of e4m3 all are,
/// as there is no other kernel.
template <class Asked>
constexpr bool has_few_rows(const Asked& asked) {
  return asked.is_e4m3 || (asked.paged && std::int64_t{asked.q_len} * asked.group() <= most_shared_rows);
}

/// Empty: the kernel takes it. Else which argument stands against it, what was found and what to do.
template <class Asked>
std::string why_not(const Asked& asked);

/// Of what why_not takes.
template <class Asked>
std::size_t scratch_bytes(const Asked& asked);

/// Enqueues the kernel on `stream` of the rank's GPU and returns.
/// @throws cuda_error  the launch failed
template <class Asked>
void launch(const world& w, const Asked& asked, void* scratch, stream_ref stream);

}  // namespace baton::decode_attention
