#pragma once
// What the two kernels of layout per_rank read when tokens travel in chunks; passed by value. E, R, T, K, H as in shape.hpp.
#include "kernels/ep/params.hpp"
#include "kernels/ep/per_rank_chunks/cells.hpp"

namespace baton::ep::per_rank_chunks {

/// A block's warps.
struct block_roles {
  int senders = 0;  // the first ones, which send before they receive; 0: only receives
  int others = 0;
  int stages = 1;  // pieces that a warp has room for
  constexpr int warps() const { return senders + others; }
};

struct dispatch_params {
  shape s;
  cells window;
  block_roles roles{};
  bool receives{};
  peer_array<std::byte> windows{};
  const bfloat16* tokens{};        // [num_tokens, H]
  const std::int32_t* topk_idx{};  // [num_tokens, K]
  const float* topk_weights{};     // [num_tokens, K] or null: 1
  int num_tokens{};
  tensor_scales input_scales{};
  round_epochs* epochs{};
  device_errors* errors{};
  std::int32_t* token_counts{};
  std::uint32_t* rank_sets{};
  std::uint32_t* choices{};
  entry* entries{};
  std::uint16_t* choice_experts{};
  std::uint64_t* tile_words{};
  std::uint32_t* tile_bits{};
  std::uint32_t* tile_counts{};  // four a word
  std::int32_t* tile_rows{};
  std::byte* rows{};
  float* scales{};
  std::int32_t* row_offsets{};
  std::int32_t* row_counts{};
  std::int32_t* expert_ids{};
  source_info* sources{};

  BATON_FN int num_ranks() const { return s.num_ranks; }
};

template <class Output>
struct combine_params {
  shape s;
  cells window;
  block_roles roles{};
  bool receives{};
  peer_array<std::byte> windows{};
  const bfloat16* expert_output{};  // [max_rows, H]
  int num_tokens{};
  round_epochs* epochs{};
  const std::int32_t* token_counts{};
  const std::uint32_t* rank_sets{};
  const std::uint32_t* choices{};
  const entry* entries{};
  float* own_sums{};  // [T, H]; used by kernels that do not both send and receive
  Output output{};
};

}  // namespace baton::ep::per_rank_chunks
