#pragma once
#include <vector>

#include "baton/token_format.hpp"
#include "cli/model/checkpoint.hpp"
#include "cli/model/moe_backend.hpp"

namespace baton::model {

/// How an implementation rounds on its way through an MoE layer. Sums of products are fp32 in all of them,
/// each expert's output row is rounded to bf16, and the sum over k is fp32; or, where there are ranks, the sums over the
/// k of each rank are fp32, those of other ranks than the token's are rounded, and the sum over ranks is fp32.
enum class weight_rounding { none, to_block_fp8 };
struct moe_rounding {
  bool tensor_cores = false;                   // sums are theirs: CUDA
  token_format dispatch = token_format::bf16;  // how tokens travel
  token_format combine = token_format::bf16;   // how sums of other ranks do: bf16 or blockwise_fp8
  std::vector<int> rank_of_expert = {}, rank_of_token = {};  // layout per_rank; empty: one sum over k
  // Both sides of products are e4m3: rows, and silu(gate) * up, rounded as blockwise_fp8 has it. Else both are bf16.
  bool fp8_products = false;
  weight_rounding weights =
      weight_rounding::none;  // from the experts given here to those multiplied by; to_block_fp8: of bf16
};

/// The result of a layer in double precision and, for each value, how far an implementation with this
/// rounding may be from it. The derivation is at the definition; the bound is rigorous, not statistical.
struct bounded_moe {
  std::vector<double> exact;  // [tokens, hidden]
  std::vector<double> bound;  // [tokens, hidden]
};
bounded_moe moe_error_bound(const expert_matrices& experts, const routed_tokens& tokens,
                            const moe_rounding& rounding);

/// The value that exceeds its bound the most (or comes closest): |found - exact| / bound, NaN counts as
/// infinite.
struct worst_value {
  double ratio = 0;  // at most 1: within the bound
  int token = 0, column = 0;
  double found = 0, exact = 0, bound = 0;
};
worst_value compare(const bounded_moe& expected, const std::vector<float>& found, int hidden);

}  // namespace baton::model
