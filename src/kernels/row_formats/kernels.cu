// The kernels that write rows in some format which are compiled for GPUs: what launch.cpp chooses from.
#include "device/entry.cuh"
#include "kernels/row_formats/kernel.hpp"
#include "kernels/row_formats/stored_rows.hpp"

namespace baton {
using namespace row_formats;

BATON_KERNEL(row_format_kernel<bf16_values, token_format::blockwise_fp8>, params);
BATON_KERNEL(row_format_kernel<bf16_values, token_format::mxfp8>, params);
BATON_KERNEL(row_format_kernel<bf16_values, token_format::mxfp4>, params);
BATON_KERNEL(row_format_kernel<bf16_values, token_format::nvfp4>, params);

BATON_KERNEL(row_format_kernel<fp32_values, token_format::bf16>, params);
BATON_KERNEL(row_format_kernel<fp32_values, token_format::blockwise_fp8>, params);
BATON_KERNEL(row_format_kernel<fp32_values, token_format::mxfp8>, params);
BATON_KERNEL(row_format_kernel<fp32_values, token_format::mxfp4>, params);
BATON_KERNEL(row_format_kernel<fp32_values, token_format::nvfp4>, params);

BATON_KERNEL(row_format_kernel<silu_values, token_format::bf16>, params);
BATON_KERNEL(row_format_kernel<silu_values, token_format::blockwise_fp8>, params);
BATON_KERNEL(row_format_kernel<silu_values, token_format::mxfp8>, params);
BATON_KERNEL(row_format_kernel<silu_values, token_format::mxfp4>, params);
BATON_KERNEL(row_format_kernel<silu_values, token_format::nvfp4>, params);

BATON_KERNEL(row_format_kernel<stored_rows<token_format::blockwise_fp8>, token_format::bf16>, params);
BATON_KERNEL(row_format_kernel<stored_rows<token_format::mxfp8>, token_format::bf16>, params);
BATON_KERNEL(row_format_kernel<stored_rows<token_format::mxfp4>, token_format::bf16>, params);
BATON_KERNEL(row_format_kernel<stored_rows<token_format::nvfp4>, token_format::bf16>, params);

BATON_KERNEL(row_format_kernel<stored_rows<token_format::bf16>, token_format::blockwise_fp8>, params);
BATON_KERNEL(row_format_kernel<stored_rows<token_format::mxfp8>, token_format::blockwise_fp8>, params);
BATON_KERNEL(row_format_kernel<stored_rows<token_format::mxfp4>, token_format::blockwise_fp8>, params);
BATON_KERNEL(row_format_kernel<stored_rows<token_format::nvfp4>, token_format::blockwise_fp8>, params);

}  // namespace baton
