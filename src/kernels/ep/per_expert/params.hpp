#pragma once
// What the four kernels read; passed by value. Shapes after the pointers; E, R, T, K, H as in shape.hpp.
#include <cstdint>

#include "kernels/ep/params.hpp"
#include "kernels/ep/per_expert/layout.hpp"
#include "protocol/peer_window.hpp"

namespace baton::ep {

/// The default router weights: a tensor, or 1.
struct tensor_weights {
  const float* weights;  // [T, K] or null
  int top_k;
  BATON_FN float operator()(int token, int topk_slot) const {
    return weights == nullptr ? 1.0f : weights[token * top_k + topk_slot];
  }
};

template <class Scales = tensor_scales, class Window = peer_stores>
struct dispatch_async_params {
  using window = Window;
  shape s;
  const void* tokens;  // [num_tokens, H]: bf16, or in the format
  any_ids topk_idx;    // [num_tokens, K]
  int num_tokens;
  row_units units;
  Scales input_scales;
  typename Window::messages receive;  // [local experts, R, T, message_bytes] of each rank
  typename Window::words count;       // [local experts, R] of each rank
  ep_local_sync_counters counters;
  std::int32_t* send_slots;   // [T, K]
  std::int32_t* sent_counts;  // [E]
  const round_counters* rounds;
  device_errors* errors;
};

struct dispatch_wait_params {
  shape s;
  const std::byte* receive;  // own buffer
  std::uint64_t* count;      // own words
  ep_local_sync_counters counters;
  round_counters* rounds;
  std::byte* tokens;          // [max_rows, payload_bytes]
  std::byte* scales;          // of s.received_scales()
  std::int32_t* row_offsets;  // [local experts + 1]
  std::int32_t* row_counts;   // [local experts]
  std::int32_t* expert_ids;   // [local experts]
  source_info* sources;       // [max_rows]
  row_reports reports;
};

template <class Window = peer_stores>
struct combine_async_params {
  using window = Window;
  shape s;
  const bfloat16* expert_output;    // [max_rows, H]
  const source_info* sources;       // [max_rows]
  typename Window::messages reply;  // [T, K, combine_bytes] of each rank
  typename Window::words count;     // [local experts, R] of each rank
  ep_local_sync_counters counters;
  const round_counters* rounds;
};

template <class Output, class Weights = tensor_weights>
struct combine_wait_params {
  shape s;
  int num_tokens;
  row_units units;
  const std::byte* reply;  // own buffer
  std::uint64_t* count;    // own words
  ep_local_sync_counters counters;
  round_counters* rounds;
  const std::int32_t* send_slots;   // [T, K]
  const std::int32_t* sent_counts;  // [E]
  Weights router_weights;
  Output output;
  shared_rows shared;  // [T, H]
};

}  // namespace baton::ep
