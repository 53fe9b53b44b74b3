#pragma once
// What the kernels of every layout are given: passed by value, as all their parameters. H as in shape.hpp.
#include "base/macros.hpp"
#include "baton/dispatch_input.hpp"
#include "exec/exec.hpp"
#include "kernels/ep/shape.hpp"

namespace baton::ep {

/// One pointer for each rank, as this rank addresses it: of a p2p group, or of all there may be.
template <class T, int most_ranks = max_near_ranks>
struct peer_array {
  T* at[most_ranks];
};
template <class T>
using all_ranks_array = peer_array<T, max_ranks>;

/// The first ones, as kernels take them whose ranks are all in one group; of more ranks none, as these have kernels of their own.
template <class T>
constexpr peer_array<T> of_near_ranks(const all_ranks_array<T>& all, int num_ranks) {
  peer_array<T> near{};
  for (int r = 0; r < num_ranks && num_ranks <= max_near_ranks; ++r) near.at[r] = all.at[r];
  return near;
}

/// The default input scales: a tensor, or none; of tokens that are given in a format of fewer bits, those of all tokens.
struct tensor_scales {
  const void* scales;  // [H / 128] floats, or null; or [num_tokens, scale_blocks] of the format's scales
  BATON_FN const void* data() const { return scales; }
  BATON_FN bool present() const { return scales != nullptr; }
  BATON_FN float operator()(int block) const { return static_cast<const float*>(scales)[block]; }
};

/// Ids of which only the running kernel looks at what they are.
struct any_ids {
  topk_ids given;
  expert_map map;    // replica_counts is null: they are physical experts'
  divider by_top_k;  // position to token
  int num_experts;   // physical
  int rank;
};

/// What shared experts made of this rank's tokens: one more addend of each token's sum, of weight 1 and the last one. So
/// out = round(sum + row), whichever kernel adds it, and it comes the way that the other addends of that kernel come.
struct shared_rows {
  static constexpr float weight = 1.0f;  // fma(1, v, s) is s + v
  const bfloat16* rows;                  // [T, H] or null: none

  BATON_FN bool present() const { return rows != nullptr; }
  BATON_FN const vec16* of(int token, int hidden, int column = 0) const {
    return reinterpret_cast<const vec16*>(rows + static_cast<std::int64_t>(token) * hidden + column);
  }
};

/// Where a dispatch tells of its rows beside received_tokens.
struct row_reports {
  std::int32_t* host_counts;  // [local experts + 1] or null
  std::int64_t* expert_load;  // [local experts] or null
  BATON_FN bool any() const { return host_counts != nullptr || expert_load != nullptr; }
};

}  // namespace baton::ep
