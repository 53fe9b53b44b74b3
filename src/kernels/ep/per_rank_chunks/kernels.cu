// The kernels of layout per_rank that move chunks, compiled for GPUs.
#include "device/entry.cuh"
#include "kernels/ep/outputs.hpp"
#include "kernels/ep/per_rank_chunks/combine.hpp"
#include "kernels/ep/per_rank_chunks/dispatch.hpp"
#include "kernels/ep/per_rank_chunks/team_combine.hpp"

namespace baton {
using namespace ep::per_rank_chunks;

#define BATON_DISPATCH_OF(...) BATON_KERNEL(dispatch_kernel<__VA_ARGS__>, dispatch_params)
BATON_DISPATCH_OF(ep::bf16_tokens);
BATON_DISPATCH_OF(ep::fp8_tokens);
BATON_DISPATCH_OF(ep::block_tokens<token_format::mxfp8>);
BATON_DISPATCH_OF(ep::block_tokens<token_format::mxfp4>);
BATON_DISPATCH_OF(ep::block_tokens<token_format::nvfp4>);
BATON_DISPATCH_OF(ep::given_tokens<token_format::blockwise_fp8>);
BATON_DISPATCH_OF(ep::given_tokens<token_format::mxfp8>);
BATON_DISPATCH_OF(ep::given_tokens<token_format::mxfp4>);
BATON_DISPATCH_OF(ep::given_tokens<token_format::nvfp4>);
BATON_KERNEL(combine_kernel<ep::store_fp32>, combine_params<ep::store_fp32>);
BATON_KERNEL(combine_kernel<ep::store_bf16>, combine_params<ep::store_bf16>);

#define BATON_FP8_COMBINE_OF(output)                                                         \
  BATON_KERNEL(combine_kernel<output, token_format::blockwise_fp8>, combine_params<output>); \
  BATON_KERNEL(team_combine_kernel<output>, combine_params<output>);
BATON_FP8_COMBINE_OF(ep::store_fp32)
BATON_FP8_COMBINE_OF(ep::store_bf16)

}  // namespace baton
