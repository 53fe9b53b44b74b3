#pragma once
#include <cstddef>
#include <cstdint>
#include <variant>

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

/// Tokens that the caller has quantised to the communicator's format, any but bf16, as quantise() does. They travel as they
/// are, bit for bit.
struct quantised_tokens {
  const void* values = nullptr;  // [num_tokens, hidden] as token_format.hpp says, 16-byte aligned
  const void* scales = nullptr;  // [num_tokens, hidden / block], row-major; fp8: on 4 bytes, nvfp4: on 2
};

/// Which physical experts serve the logical ones that a router knows, for a communicator with more experts than these
/// (expert_placement.hpp makes the tables). Device memory; both of them, or neither: then ids are the communicator's.
///
/// Of logical expert e with n = replica_counts[e], token t of rank r goes to logical_to_physical[e, (t + r) % n]: the same on
/// every run, whatever else is routed. With n = 0 the expert is not this communicator's: its choices count as -1 (own_experts).
struct expert_map {
  const std::int32_t* logical_to_physical =
      nullptr;  // [num_logical, max_replicas], what lies behind a count is not read
  const std::int32_t* replica_counts = nullptr;  // [num_logical]: 0 to max_replicas
  int num_logical = 0;                           // at most 1024
  int max_replicas = 0;
};

/// What a rank gives to dispatch, by name: `moe.dispatch({.tokens = x, .topk_idx = ids, .num_tokens = n}, stream)`.
/// Device memory, contiguous, alive until the round's kernels have ended, and unchanged until then where it is read.
///
/// | member         | shape                 | type           | alignment, meaning                                      |
/// |----------------|-----------------------|----------------|---------------------------------------------------------|
/// | `tokens`       | [num_tokens, hidden]  | bf16, or       | 16-byte aligned; bf16 is cast to the communicator's     |
/// |                |                       | quantised      | format on its way                                       |
/// | `topk_idx`     | [num_tokens, top_k]   | int32 or int64 | of its type; -1: no expert                              |
/// | `topk_weights` | [num_tokens, top_k]   | fp32           | optional router weights, which travel with the tokens   |
/// | `input_scales` | [hidden / 128]        | fp32           | optional; blockwise_fp8 from bf16: each block's scale;  |
/// |                | [1]                   |                | nvfp4: the tensor scale, the same on all ranks.         |
/// |                |                       |                | Positive, finite                                        |
/// | `num_sms`      |                       |                | blocks of this dispatch's kernels, at most the          |
/// |                |                       |                | communicator's; 0: those. Ranks need not agree          |
/// | `host_counts`  | [local experts + 1]   | int32          | optional, written; see below                            |
/// | `expert_load`  | [local experts]       | int64          | optional; the round's rows of each expert are added     |
/// | `replicas`     | see expert_map        | int32          | optional: topk_idx are of logical experts               |
/// | `slot`         |                       |                | which of the communicator's num_slots rounds this is    |
///
/// Zero tokens (with null pointers), ids of -1 and repeated ids are legal. An id below -1 or past num_experts, of 64 bits too,
/// counts as -1, and check() reports the first.
///
/// Weights: layout per_rank wants them here, as its ranks add up their experts' outputs before they send them back;
/// combine_wait then takes none. Null: weights of 1, or, with per_expert, those of combine_wait. per_expert reads them in
/// combine_wait, per_rank here.
///
/// `host_counts`, for a caller that sizes its products on the host, is host memory that the device can write: pinned
/// (cudaHostAlloc, torch's pin_memory) on CUDA, any on the CPU. It gets the rows of each local expert, then the row behind the
/// last expert's with its padding: row_counts, and the last of row_offsets. It is complete when the stream, or an event
/// behind the dispatch (with dispatch_async: behind dispatch_wait), has been waited for. To have it while tokens are still
/// coming, set every word to -1 before the call, and poll until none is: each is written once a round. If the round gives
/// up they may never come: poll no longer than world::deadline, then synchronise, which throws stuck. (On the CPU work runs
/// when the stream is waited for, so there is nothing to poll.)
///
/// `expert_load` is the caller's, to zero and to read in stream order: dispatches of one stream after another may share it.
/// It counts physical experts, which are what a rank has; logical_loads() makes those of logical ones of all ranks' together.
///
/// `replicas`: a rank's map is its own matter, so that each may prefer its own replicas (nearest_replicas), as long as every
/// physical expert that is listed has the weights of the logical one. Only the kernel of dispatch_async, or dispatch, reads it;
/// behind that, in stream order, it may be overwritten: a captured graph then goes by the new one, whose sizes are the old one's.
/// All ranks take new weights into use in the same round. A logical id that is none, or of which the map makes no expert,
/// counts as -1, and check() reports it. Results are those of the physical experts: with layout per_expert the same bits as
/// without replicas, if replicas have the same weights; with per_rank sums depend on which of a token's experts share a rank.
/// Cost: two loads, one after the other, of each id; with per_rank in lines a kernel of its own has them, else a branch
/// is all that rounds without a map have of it.
struct dispatch_input {
  std::variant<const bfloat16*, quantised_tokens> tokens{};
  topk_ids topk_idx{};
  const float* topk_weights = nullptr;
  int num_tokens = 0;
  const float* input_scales = nullptr;
  int num_sms = 0;
  std::int32_t* host_counts = nullptr;
  std::int64_t* expert_load = nullptr;
  expert_map replicas{};
  int slot = 0;
};

/// What a rank gives to combine.
///
/// `shared_output`: what shared experts, which every token has, made of this rank's tokens here, so that no pass of its own has
/// to add it. Token t's row is added to the finished sum of its chosen experts, as expert_parallel::combine() says; a token
/// without any gets just that row. Device memory, 16-byte aligned, apart from `out`, unchanged until combine, or the round's
/// combine_wait, is done. Of the split form combine_async is given it and combine_wait reads it: shared experts may compute
/// between the two, while others' outputs travel. Of a round without tokens it is not looked at.
///
/// `topk_weights`: with ep_config::weights_at_combine only, where dispatch is given none. Device memory, unchanged until combine,
/// or combine_async, is done. Ranks may each give some or none.
struct combine_input {
  const bfloat16* expert_output = nullptr;  // [max_rows, hidden]: of row r of the slot's received_tokens at r
  int num_sms =
      0;  // blocks of this combine's kernels, at most the communicator's; 0: those. Ranks need not agree
  int slot = 0;                             // whose round this goes on with
  const bfloat16* shared_output = nullptr;  // [num_tokens of the round's dispatch, hidden]; null: none
  const float* topk_weights = nullptr;      // [num_tokens of the round's dispatch, top_k]; null: 1
};

}  // namespace baton
