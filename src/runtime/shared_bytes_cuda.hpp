#pragma once
// How much shared memory blocks of a kernel may have: the library's kernels, and the module's for ranks beyond the group.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <mutex>
#include <utility>

namespace baton::on_cuda {

/// On the current device, and never less than before: another thread may be about to launch the same kernel with what it has
/// asked for. Said each time, as a device that was reset has forgotten it.
inline cudaError_t allow_shared_bytes(const void* entry, std::size_t bytes) {
  constexpr std::size_t of_any_kernel = 48 << 10;
  if (bytes <= of_any_kernel) return cudaSuccess;
  int device = 0;
  if (const cudaError_t status = cudaGetDevice(&device); status != cudaSuccess) return status;
  static std::mutex mutex;
  static std::map<std::pair<int, const void*>, std::size_t> allowed;
  const std::lock_guard lock{mutex};
  std::size_t& most = allowed[{device, entry}];
  const std::size_t now = std::max(bytes, most);
  const cudaError_t status =
      cudaFuncSetAttribute(entry, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(now));
  if (status == cudaSuccess) most = now;
  return status;
}

}  // namespace baton::on_cuda
