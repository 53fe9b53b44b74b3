#pragma once
#include <cstddef>
#include <cstdint>

#include "baton/numeric.hpp"

namespace baton {

/// Expert ids [num_tokens, top_k], contiguous, in device memory: int32, or int64 as torch.topk gives them.
struct topk_ids {
  const void* data = nullptr;
  bool is_wide = false;  // int64

  constexpr topk_ids() = default;
  constexpr topk_ids(std::nullptr_t) {}
  constexpr topk_ids(const std::int32_t* ids) : data{ids} {}
  constexpr topk_ids(const std::int64_t* ids) : data{ids}, is_wide{true} {}
};

/// What a rank gives to dispatch, by name: `moe.dispatch({.tokens = x, .topk_idx = ids, .num_tokens = n}, stream)`.
/// Device memory, contiguous, alive and unchanged until the round's kernels have ended.
///
/// | member         | shape                 | type           | alignment, meaning                                      |
/// |----------------|-----------------------|----------------|---------------------------------------------------------|
/// | `tokens`       | [num_tokens, hidden]  | bf16           | 16-byte aligned                                         |
/// | `topk_idx`     | [num_tokens, top_k]   | int32 or int64 | of its type; -1: no expert                              |
/// | `topk_weights` | [num_tokens, top_k]   | fp32           | optional router weights, which travel with the tokens   |
/// | `input_scales` | [hidden / 128]        | fp32           | optional; blockwise_fp8: the scale of each block;       |
/// |                | [1]                   |                | nvfp4: the tensor scale, the same on all ranks.         |
/// |                |                       |                | Positive, finite                                        |
///
/// Zero tokens (with null pointers), ids of -1 and repeated ids are legal. An id below -1 or past num_experts, of 64 bits too,
/// counts as -1, and check() reports the first.
///
/// Weights: layout per_rank wants them here, as its ranks add up their experts' outputs before they send them back;
/// combine_wait then takes none. Null: weights of 1, or, with per_expert, those of combine_wait. per_expert reads them in
/// combine_wait, per_rank here.
struct dispatch_input {
  const bfloat16* tokens = nullptr;
  topk_ids topk_idx{};
  const float* topk_weights = nullptr;
  int num_tokens = 0;
  const float* input_scales = nullptr;
};

}  // namespace baton
