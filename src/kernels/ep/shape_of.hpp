#pragma once
// The sizes of a communicator, from what it was asked for.
#include "baton/expert_parallel.hpp"
#include "kernels/ep/shape.hpp"

namespace baton::ep {

/// Chunks arrive as rows; lines have to be put together.
inline row_storage storage_of(const ep_config& c, int num_ranks) {
  if (c.rows == ep_rows::by_expert) return row_storage::of_experts;
  const bool in_chunks = transfer_of(c, num_ranks) == ep_transfer::chunks;
  return in_chunks ? row_storage::in_window : row_storage::of_tokens;
}

inline shape shape_of(const ep_config& c, int num_ranks, int rank) {
  return {c.num_experts,
          num_ranks,
          rank,
          c.top_k,
          c.hidden,
          c.num_max_tokens_per_rank,
          c.format,
          c.tiled_scales,
          static_cast<std::uint8_t>(c.row_alignment),
          storage_of(c, num_ranks),
          c.combine_format == token_format::blockwise_fp8,
          c.weights_at_combine,
          c.rows_of_expert};
}

}  // namespace baton::ep
