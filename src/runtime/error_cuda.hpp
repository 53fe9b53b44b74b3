#pragma once
// Return codes of CUDA calls become exceptions. Only for units that are compiled with BATON_CUDA=1.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <source_location>
#include <string_view>

namespace baton {

/// Throws cuda_error unless `status` is success: what was being done ("mapping 64 MiB of rank 3"), the code's
/// name and meaning, and the line that asked. A failed call leaves no error behind for later ones to find.
void check(cudaError_t status, std::string_view doing = {},
           std::source_location at = std::source_location::current());
void check(CUresult status, std::string_view doing = {},
           std::source_location at = std::source_location::current());

}  // namespace baton
