#include "runtime/driver_cuda.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "baton/error.hpp"

namespace baton {
namespace {

constexpr unsigned int oldest_interface = 12000;  // the calls above have not changed since

template <class Call>
void resolve(const char* name, Call& call) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  const cudaError_t status =
      cudaGetDriverEntryPointByVersion(name, &found, oldest_interface, cudaEnableDefault, &result);
  if (status != cudaSuccess || result != cudaDriverEntryPointSuccess || found == nullptr) {
    cudaGetLastError();
    throw unsupported{fmt::format("the CUDA driver has no {}: {}; install a driver of version 580 or later",
                                  name, cudaGetErrorString(status))};
  }
  call = reinterpret_cast<Call>(found);
}

driver_calls resolve_all() {
  driver_calls d{};
  resolve("cuGetErrorName", d.get_error_name);
  resolve("cuGetErrorString", d.get_error_string);
  resolve("cuDeviceGetAttribute", d.device_get_attribute);
  resolve("cuMemGetAllocationGranularity", d.mem_get_allocation_granularity);
  resolve("cuMemCreate", d.mem_create);
  resolve("cuMemRelease", d.mem_release);
  resolve("cuMemAddressReserve", d.mem_address_reserve);
  resolve("cuMemAddressFree", d.mem_address_free);
  resolve("cuMemMap", d.mem_map);
  resolve("cuMemUnmap", d.mem_unmap);
  resolve("cuMemSetAccess", d.mem_set_access);
  resolve("cuMemExportToShareableHandle", d.mem_export);
  resolve("cuMemImportFromShareableHandle", d.mem_import);
  resolve("cuTensorMapEncodeTiled", d.tensor_map_encode_tiled);
  return d;
}

}  // namespace

const driver_calls& driver() {
  static const driver_calls calls = resolve_all();
  return calls;
}

}  // namespace baton
