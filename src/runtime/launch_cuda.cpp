#include <cuda_runtime_api.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <tuple>
#include <utility>

#include "runtime/device_guard_cuda.hpp"
#include "runtime/error_cuda.hpp"
#include "runtime/named_range_cuda.hpp"
#include "runtime/on_cuda.hpp"
#include "runtime/shared_bytes_cuda.hpp"

namespace baton::on_cuda {
namespace {

/// A launch as the runtime is told of it: `config` points into it.
class launch_config {
 public:
  launch_config(const launch_grid& grid, stream_ref stream) {
    if (grid.cluster > 1) {
      cudaLaunchAttribute& a = add(cudaLaunchAttributeClusterDimension);
      a.val.clusterDim = {static_cast<unsigned>(grid.cluster), 1, 1};
    }
    if (grid.begins_early)
      add(cudaLaunchAttributeProgrammaticStreamSerialization).val.programmaticStreamSerializationAllowed = 1;
    config_.gridDim = dim3(static_cast<unsigned>(grid.blocks));
    config_.blockDim = dim3(static_cast<unsigned>(grid.threads));
    config_.dynamicSmemBytes = grid.shared_bytes;
    config_.stream = static_cast<cudaStream_t>(stream.native);
    config_.attrs = attributes_;
  }
  launch_config(const launch_config&) = delete;
  launch_config& operator=(const launch_config&) = delete;

  const cudaLaunchConfig_t* get() const { return &config_; }

 private:
  cudaLaunchAttribute& add(cudaLaunchAttributeID id) {
    cudaLaunchAttribute& a = attributes_[config_.numAttrs++];
    a.id = id;
    return a;
  }

  cudaLaunchAttribute attributes_[2]{};
  cudaLaunchConfig_t config_{};
};

int ask_for_most_clusters(int device, const void* entry, launch_grid grid) {
  const device_guard on_device{device};
  check(allow_shared_bytes(entry, grid.shared_bytes));
  grid.blocks = std::max(grid.cluster, 1);
  int clusters = 0;
  if (grid.cluster > 1) {
    check(cudaOccupancyMaxActiveClusters(&clusters, entry, launch_config{grid, {}}.get()));
    return clusters;
  }
  int of_sm = 0, sms = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&of_sm, entry, grid.threads, grid.shared_bytes));
  check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
  return of_sm * sms;
}

/// Asked for its attributes the runtime has the code on the device. A thread asks once.
void load(int device, const void* entry) {
  thread_local std::set<std::pair<int, const void*>> loaded;
  if (!loaded.emplace(device, entry).second) return;
  cudaFuncAttributes of_kernel{};
  check(cudaFuncGetAttributes(&of_kernel, entry));
}

}  // namespace

void launch(int device, const named_entry& entry, const launch_grid& grid, const void* params, launched_by by,
            stream_ref stream) {
  const device_guard on_device{device};
  const named_range is_called{entry.name};
  check(allow_shared_bytes(entry.code, grid.shared_bytes));
  if (grid.only_loads) return load(device, entry.code);
  void* arguments[] = {const_cast<void*>(params), &by};
  check(cudaLaunchKernelExC(launch_config{grid, stream}.get(), entry.code, arguments), "launching a kernel");
}

int most_clusters(int device, const void* entry, const launch_grid& grid) {
  static std::mutex mutex;
  static std::map<std::tuple<int, const void*, int, int, std::size_t>, int> known;
  const std::lock_guard lock{mutex};
  const auto [at, is_new] =
      known.try_emplace({device, entry, grid.cluster, grid.threads, grid.shared_bytes}, 0);
  if (!is_new) return at->second;
  try {
    return at->second = ask_for_most_clusters(device, entry, grid);
  } catch (...) {
    known.erase(at);
    throw;
  }
}

}  // namespace baton::on_cuda
