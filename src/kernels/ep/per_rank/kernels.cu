// The kernels of layout per_rank that are compiled for GPUs.
#include "device/entry.cuh"
#include "kernels/ep/outputs.hpp"
#include "kernels/ep/per_rank/combine.hpp"
#include "kernels/ep/per_rank/dispatch.hpp"
#include "kernels/ep/per_rank/known_ranks.hpp"

namespace baton {
using namespace ep::per_rank;

#define BATON_DISPATCH_OF(ranks, tokens, id) \
  BATON_KERNEL(dispatch_kernel<tokens, ranks, id>, sized<dispatch_params, ranks, tokens::format, id>);
#define BATON_KERNELS_OF(ranks)                                                                      \
  BATON_DISPATCH_OF(ranks, ep::bf16_tokens, std::int32_t)                                            \
  BATON_DISPATCH_OF(ranks, ep::bf16_tokens, std::int64_t)                                            \
  BATON_DISPATCH_OF(ranks, ep::fp8_tokens, std::int32_t)                                             \
  BATON_DISPATCH_OF(ranks, ep::fp8_tokens, std::int64_t)                                             \
  BATON_KERNEL(combine_kernel<ep::store_fp32, ranks>, sized<combine_params<ep::store_fp32>, ranks>); \
  BATON_KERNEL(combine_kernel<ep::store_bf16, ranks>, sized<combine_params<ep::store_bf16>, ranks>);
BATON_FOR_KNOWN_RANKS(BATON_KERNELS_OF)

}  // namespace baton
