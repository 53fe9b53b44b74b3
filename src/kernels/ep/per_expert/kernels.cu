// The kernels of layout per_expert that are compiled for GPUs: what select.hpp chooses from.
#include "device/entry.cuh"
#include "kernels/ep/outputs.hpp"
#include "kernels/ep/per_expert/combine_async.hpp"
#include "kernels/ep/per_expert/combine_wait.hpp"
#include "kernels/ep/per_expert/dispatch_async.hpp"
#include "kernels/ep/per_expert/dispatch_wait.hpp"

namespace baton {
using namespace ep;

using epoch = epoch_arrival;
using sentinel = sentinel_arrival;

#define BATON_DISPATCH_OF(...)                                                      \
  BATON_KERNEL(dispatch_async_kernel<__VA_ARGS__, epoch>, dispatch_async_params<>); \
  BATON_KERNEL(dispatch_async_kernel<__VA_ARGS__, sentinel>, dispatch_async_params<>);
BATON_DISPATCH_OF(bf16_tokens)
BATON_DISPATCH_OF(fp8_tokens)
BATON_DISPATCH_OF(block_tokens<token_format::mxfp8>)
BATON_DISPATCH_OF(block_tokens<token_format::mxfp4>)
BATON_DISPATCH_OF(block_tokens<token_format::nvfp4>)
BATON_DISPATCH_OF(given_tokens<token_format::blockwise_fp8>)
BATON_DISPATCH_OF(given_tokens<token_format::mxfp8>)
BATON_DISPATCH_OF(given_tokens<token_format::mxfp4>)
BATON_DISPATCH_OF(given_tokens<token_format::nvfp4>)

BATON_KERNEL(dispatch_wait_kernel<epoch>, dispatch_wait_params);
BATON_KERNEL(dispatch_wait_kernel<sentinel>, dispatch_wait_params);

BATON_KERNEL(combine_async_kernel<epoch>, combine_async_params<>);
BATON_KERNEL(combine_async_kernel<sentinel>, combine_async_params<>);

BATON_KERNEL(combine_wait_kernel<epoch>, combine_wait_params<store_fp32>);
BATON_KERNEL(combine_wait_kernel<epoch>, combine_wait_params<store_bf16>);
BATON_KERNEL(combine_wait_kernel<epoch>, combine_wait_params<store_unreduced>);
BATON_KERNEL(combine_wait_kernel<sentinel>, combine_wait_params<store_fp32>);
BATON_KERNEL(combine_wait_kernel<sentinel>, combine_wait_params<store_bf16>);
BATON_KERNEL(combine_wait_kernel<sentinel>, combine_wait_params<store_unreduced>);

}  // namespace baton
