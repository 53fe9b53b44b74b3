// The kernels of layout per_rank that move chunks, compiled for GPUs.
#include "device/entry.cuh"
#include "kernels/ep/outputs.hpp"
#include "kernels/ep/per_rank_chunks/combine.hpp"
#include "kernels/ep/per_rank_chunks/dispatch.hpp"

namespace baton {
using namespace ep::per_rank_chunks;

BATON_KERNEL(dispatch_kernel<ep::bf16_tokens>, dispatch_params);
BATON_KERNEL(dispatch_kernel<ep::fp8_tokens>, dispatch_params);
BATON_KERNEL(dispatch_kernel<ep::given_tokens<token_format::blockwise_fp8>>, dispatch_params);
BATON_KERNEL(combine_kernel<ep::store_fp32>, combine_params<ep::store_fp32>);
BATON_KERNEL(combine_kernel<ep::store_bf16>, combine_params<ep::store_bf16>);

}  // namespace baton
