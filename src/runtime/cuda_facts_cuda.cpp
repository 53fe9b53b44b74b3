#include <fmt/format.h>

#include "baton/error.hpp"

#include "runtime/cuda_facts.hpp"
#include "runtime/device_guard_cuda.hpp"
#include "runtime/driver_cuda.hpp"
#include "runtime/error_cuda.hpp"

namespace baton {
namespace {

/// 0 where the question is not answered: facts are gathered as far as they go.
int attribute(int device, CUdevice_attribute which) {
  int value = 0;
  return driver().device_get_attribute(&value, which, device) == CUDA_SUCCESS ? value : 0;
}

std::vector<bool> reachable_from(int device, int count) {
  std::vector<bool> reaches;
  for (int other = 0; other < count; ++other) {
    int can = other == device ? 1 : 0;
    if (other != device) check(cudaDeviceCanAccessPeer(&can, device, other), "asking for peer access");
    reaches.push_back(can != 0);
  }
  return reaches;
}

gpu_facts read_gpu(int device, int count) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), fmt::format("asking what device {} is", device));
  gpu_facts g;
  g.ordinal = device;
  g.name = properties.name;
  g.bus_id = fmt::format("{:08x}:{:02x}:{:02x}.0", properties.pciDomainID, properties.pciBusID,
                         properties.pciDeviceID);
  g.major = properties.major;
  g.minor = properties.minor;
  g.num_sms = properties.multiProcessorCount;
  g.has_kernels = g.major == 9 && g.minor == 0;
  g.memory_bytes = properties.totalGlobalMem;
  g.exports_memory = attribute(device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) != 0 &&
                     attribute(device, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) != 0;
  g.exports_dma_buf = attribute(device, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED) != 0;
  g.orders_card_writes = attribute(device, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING) >=
                         CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER;
  g.reaches = reachable_from(device, count);
  const device_guard guard{device};
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), fmt::format("asking how much memory device {} has left", device));
  g.memory_free_bytes = free;
  return g;
}

}  // namespace

void read_cuda_facts(device_facts& facts) {
  facts.built_with_cuda = true;
  facts.runtime_cuda = CUDART_VERSION;
  if (cudaDriverGetVersion(&facts.driver_cuda) != cudaSuccess) facts.driver_cuda = 0;
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    facts.cuda_problem = status == cudaSuccess ? "no device is visible" : cudaGetErrorString(status);
    cudaGetLastError();
    return;
  }
  try {
    for (int device = 0; device < count; ++device) facts.gpus.push_back(read_gpu(device, count));
  } catch (const error& e) {
    facts.cuda_problem = e.what();
  }
}

}  // namespace baton
