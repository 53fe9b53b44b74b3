#pragma once
// Where router weights arrive that are given to combine (kernel.hpp), and what the kernel that brings them is asked; by value.
#include "kernels/ep/per_rank/params.hpp"

namespace baton::ep::late_weights {

/// Behind everything else that a window has, however tokens travel: [source][token, choice] words of 64 bits, on 128 bytes.
struct cells {
  std::size_t words, bytes;

  constexpr cells(const shape& s, std::size_t others)
      : words{align_up(others, std::size_t{128})},
        bytes{align_up(words + static_cast<std::size_t>(s.num_ranks * s.max_tokens) *
                                   static_cast<std::size_t>(s.top_k) * sizeof(std::uint64_t),
                       std::size_t{128})} {}
};

/// Of a window whose other cells take so many.
constexpr std::size_t window_bytes(const shape& s, std::size_t others) {
  return s.late_weights ? cells{s, others}.bytes : others;
}

struct params {
  shape s;
  divider by_top_k;
  std::size_t words;  // in every rank's window
  peer_array<std::byte> windows;
  const float* topk_weights;  // [num_tokens, K] or null: 1
  int num_tokens;
  const per_rank::round_epochs* epochs;
  const std::int32_t* token_counts;
  const std::uint32_t* choices;
  per_rank::entry* entries;
  bool entries_follow;  // each other (per_rank::nth_entry); else they lie by choice, as chunks have them
};

}  // namespace baton::ep::late_weights
