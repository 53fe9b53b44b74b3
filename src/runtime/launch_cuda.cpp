#include <cuda_runtime_api.h>

#include "runtime/device_guard_cuda.hpp"
#include "runtime/error_cuda.hpp"
#include "runtime/on_cuda.hpp"

namespace baton::on_cuda {
namespace {

/// What a block may have without asking.
constexpr std::size_t shared_bytes_of_any_kernel = 48 << 10;

}  // namespace

void launch(int device, const void* entry, const launch_grid& grid, const void* params, launched_by by,
            stream_ref stream) {
  const device_guard on_device{device};
  if (grid.shared_bytes > shared_bytes_of_any_kernel)
    check(cudaFuncSetAttribute(entry, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(grid.shared_bytes)));
  cudaLaunchAttribute attributes[2]{};
  unsigned count = 0;
  if (grid.cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count++].val.clusterDim = {static_cast<unsigned>(grid.cluster), 1, 1};
  }
  if (grid.begins_early) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(grid.blocks));
  config.blockDim = dim3(static_cast<unsigned>(grid.threads));
  config.dynamicSmemBytes = grid.shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream.native);
  config.attrs = attributes;
  config.numAttrs = count;
  void* arguments[] = {const_cast<void*>(params), &by};
  check(cudaLaunchKernelExC(&config, entry, arguments), "launching a kernel");
}

}  // namespace baton::on_cuda
