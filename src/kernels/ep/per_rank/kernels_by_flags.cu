// The kernels of layout per_rank that are compiled for GPUs, by flags.
#include "device/entry.cuh"
#include "kernels/ep/outputs.hpp"
#include "kernels/ep/per_rank/by_flags.hpp"
#include "kernels/ep/per_rank/combine.hpp"
#include "kernels/ep/per_rank/dispatch.hpp"
#include "kernels/ep/per_rank/known_ranks.hpp"

namespace baton {
using namespace ep::per_rank;

#define BATON_FLAGS_DISPATCH_OF(ranks, tokens, ids)           \
  BATON_KERNEL(dispatch_kernel<tokens, ranks, ids, by_flags>, \
               sized<dispatch_params_of<flag_cells>, ranks, tokens::format, ids>);
#define BATON_FLAGS_DISPATCH_FROM(ranks, tokens)       \
  BATON_FLAGS_DISPATCH_OF(ranks, tokens, std::int32_t) \
  BATON_FLAGS_DISPATCH_OF(ranks, tokens, ep::any_ids)
#define BATON_FLAGS_COMBINE_OF(ranks, output) \
  BATON_KERNEL(combine_kernel<output, ranks, by_flags>, sized<combine_params<output, flag_cells>, ranks>);
#define BATON_FLAGS_KERNELS_OF(ranks)                                             \
  BATON_FLAGS_DISPATCH_FROM(ranks, ep::bf16_tokens)                               \
  BATON_FLAGS_DISPATCH_FROM(ranks, ep::fp8_tokens)                                \
  BATON_FLAGS_DISPATCH_FROM(ranks, ep::given_tokens<token_format::blockwise_fp8>) \
  BATON_FLAGS_COMBINE_OF(ranks, ep::store_fp32)                                   \
  BATON_FLAGS_COMBINE_OF(ranks, ep::store_bf16)
BATON_FOR_KNOWN_RANKS_BY_FLAGS(BATON_FLAGS_KERNELS_OF)

#define BATON_FLAGS_PAIR_COMBINE_OF(output)                                                     \
  BATON_KERNEL(combine_kernel<output, 2, by_flags, token_format::bf16, max_pair_combine_warps>, \
               sized<combine_params<output, flag_cells>, 2>);
BATON_FLAGS_PAIR_COMBINE_OF(ep::store_fp32)
BATON_FLAGS_PAIR_COMBINE_OF(ep::store_bf16)

#define BATON_FLAGS_FP8_COMBINE_OF(output)                                       \
  BATON_KERNEL(combine_kernel<output, 0, by_flags, token_format::blockwise_fp8>, \
               sized<combine_params<output, flag_cells>, 0, token_format::blockwise_fp8>);
BATON_FLAGS_FP8_COMBINE_OF(ep::store_fp32)
BATON_FLAGS_FP8_COMBINE_OF(ep::store_bf16)

}  // namespace baton
