#pragma once
// What a dispatch leaves on a rank, the same in every layout: where it lies in the rank's own memory, and as callers see it.
#include "kernels/ep/shape.hpp"

namespace baton::ep {

/// Lays arrays out in a rank's own memory, each on 256 bytes.
struct local_plan {
  std::size_t bytes = 0;
  constexpr std::size_t take(std::size_t size) {
    const std::size_t here = bytes;
    bytes = align_up(bytes + size, std::size_t{256});
    return here;
  }
};

/// Offsets.
struct received_layout {
  std::size_t
      tokens;  // u8  [max_rows, payload_bytes]; where each token has a row, [R * T, token_row_bytes], or none
  std::size_t scales;       // of shape::received_scales(), or in the rows of tokens
  std::size_t token_rows;   // i32 [max_rows], where each token has a row
  std::size_t row_offsets;  // i32 [max_local_experts + 1]
  std::size_t row_counts;   // i32 [max_local_experts]
  std::size_t expert_ids;   // i32 [max_local_experts]
  std::size_t sources;      // source_info [max_rows]

  constexpr received_layout(local_plan& plan, const shape& s) {
    const auto rows = static_cast<std::size_t>(s.max_rows()),
               experts = static_cast<std::size_t>(s.max_local_experts());
    if (s.by_token()) {
      const auto held =
          static_cast<std::size_t>(s.rows == row_storage::of_tokens ? s.num_ranks * s.max_tokens : 0);
      tokens = plan.take(held * static_cast<std::size_t>(s.token_row_bytes()));
      scales = tokens + static_cast<std::size_t>(s.payload_bytes());
    } else {
      tokens = plan.take(rows * static_cast<std::size_t>(s.payload_bytes()));
      scales = plan.take(static_cast<std::size_t>(s.received_scales().count() * s.facts.scale_bytes));
    }
    token_rows = plan.take(s.by_token() ? 4 * rows : 0);
    row_offsets = plan.take(4 * (experts + 1));
    row_counts = plan.take(4 * experts);
    expert_ids = plan.take(4 * experts);
    sources = plan.take(rows * sizeof(source_info));
  }
};

/// The same in the memory at `local`, of the rank that `s` is of.
inline received_tokens received_at(const std::byte* local, const received_layout& at, const shape& s) {
  const auto array = [&]<class T>(const T*, std::size_t offset) {
    return reinterpret_cast<const T*>(local + offset);
  };
  received_tokens r;
  r.tokens = local + at.tokens;
  r.scales = s.scale_blocks() > 0 ? local + at.scales : nullptr;
  r.token_rows = s.by_token() ? array(r.token_rows, at.token_rows) : nullptr;
  r.max_token_rows = s.by_token() ? s.num_ranks * s.max_tokens : s.max_rows();
  r.row_bytes = s.by_token() ? s.token_row_bytes() : s.payload_bytes();
  r.scales_layout = s.scales_layout();
  r.row_offsets = array(r.row_offsets, at.row_offsets);
  r.row_counts = array(r.row_counts, at.row_counts);
  r.expert_ids = array(r.expert_ids, at.expert_ids);
  r.sources = array(r.sources, at.sources);
  r.num_local_experts = s.num_local_experts(s.rank);
  r.max_rows = s.max_rows();
  r.format = s.format;
  r.hidden = s.hidden;
  return r;
}

}  // namespace baton::ep
