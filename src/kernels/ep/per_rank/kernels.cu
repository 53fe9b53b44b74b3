// The kernels of layout per_rank that are compiled for GPUs.
#include "device/entry.cuh"
#include "kernels/ep/outputs.hpp"
#include "kernels/ep/per_rank/combine.hpp"
#include "kernels/ep/per_rank/dispatch.hpp"
#include "kernels/ep/per_rank/known_ranks.hpp"

namespace baton {
using namespace ep::per_rank;

using given_fp8 = ep::given_tokens<token_format::blockwise_fp8>;

#define BATON_DISPATCH_OF(ranks, tokens)                                                       \
  BATON_KERNEL(dispatch_kernel<tokens, ranks>, sized<dispatch_params, ranks, tokens::format>); \
  BATON_KERNEL(dispatch_kernel<tokens, ranks, std::int64_t>,                                   \
               sized<dispatch_params, ranks, tokens::format, std::int64_t>);                   \
  BATON_KERNEL(dispatch_kernel<tokens, ranks, ep::any_ids>,                                    \
               sized<dispatch_params, ranks, tokens::format, ep::any_ids>);
#define BATON_KERNELS_OF(ranks)                                                                      \
  BATON_DISPATCH_OF(ranks, ep::bf16_tokens)                                                          \
  BATON_DISPATCH_OF(ranks, ep::fp8_tokens)                                                           \
  BATON_DISPATCH_OF(ranks, given_fp8)                                                                \
  BATON_KERNEL(combine_kernel<ep::store_fp32, ranks>, sized<combine_params<ep::store_fp32>, ranks>); \
  BATON_KERNEL(combine_kernel<ep::store_bf16, ranks>, sized<combine_params<ep::store_bf16>, ranks>);
BATON_FOR_KNOWN_RANKS(BATON_KERNELS_OF)

#define BATON_PAIR_COMBINE_OF(output)                                                           \
  BATON_KERNEL(combine_kernel<output, 2, by_lines, token_format::bf16, max_pair_combine_warps>, \
               sized<combine_params<output>, 2>);
BATON_PAIR_COMBINE_OF(ep::store_fp32)
BATON_PAIR_COMBINE_OF(ep::store_bf16)

#define BATON_FP8_COMBINE_OF(output)                                             \
  BATON_KERNEL(combine_kernel<output, 0, by_lines, token_format::blockwise_fp8>, \
               sized<combine_params<output>, 0, token_format::blockwise_fp8>);
BATON_FP8_COMBINE_OF(ep::store_fp32)
BATON_FP8_COMBINE_OF(ep::store_bf16)

}  // namespace baton
