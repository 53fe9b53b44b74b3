#pragma once
#include <cstdint>

#include "baton/token_format.hpp"

namespace baton {

/// Where a received row came from: its token's index on the source rank, which of its top-k choices it
/// serves, and the source rank; and, with layout per_expert, a seal over these three, the expert and the round, by which
/// combine_async knows a source that is damaged or of another round.
struct source_info {
  std::int32_t token;
  std::int32_t topk_slot;
  std::int32_t rank;
  std::uint32_t seal;
};

/// What dispatch_wait leaves on a rank: every received token, grouped by local expert, then source rank, then
/// the order on that rank. Rows are numbered so whatever ep_config::rows says, and experts' outputs lie by these numbers. All
/// pointers are device memory owned by the communicator, valid until its slot's next dispatch_wait; but tokens and scales that
/// stay where they arrive (by_token, in chunks) until its next dispatch_async only: then peers that are ahead write there.
struct received_tokens {
  const void* tokens = nullptr;  // [max_rows, hidden] in the format
  const void* scales = nullptr;  // at scale_places{scales_layout, max_rows, blocks}; null with bf16
  const std::int32_t* row_offsets = nullptr;  // [num_local_experts + 1]: first row of each expert
  const std::int32_t* row_counts = nullptr;   // [num_local_experts]: rows of each expert
  const std::int32_t* expert_ids = nullptr;   // [num_local_experts]: global ids
  const source_info* sources = nullptr;       // [max_rows]
  int num_local_experts = 0;
  int max_rows = 0;
  token_format format = token_format::bf16;
  int hidden = 0;                                        // values in a row
  scale_layout scales_layout = scale_layout::row_major;  // column_major with blockwise_fp8
  const float* tensor_scale = nullptr;  // nvfp4: the input scale that this rank gave to dispatch

  /// ep_rows::by_token: where row r's token lies, one of max_token_rows: its values at tokens + token_rows[r] * row_bytes, its
  /// scales, as many as a token has, one after the other at scales + token_rows[r] * row_bytes, bytes both; scales_layout is
  /// row_major. What else there is in a row is unspecified. A token's experts' rows name the same place. Null: by_expert.
  const std::int32_t* token_rows = nullptr;  // [max_rows]
  int max_token_rows = 0;
  int row_bytes = 0;  // a multiple of 16

  /// A router weight for each row, if experts are to multiply by it. No dispatch sets it: combine multiplies by the weights that
  /// dispatch was given, so give weights to one of both. Null: none.
  const float* row_weights = nullptr;  // [max_rows]
};

}  // namespace baton
