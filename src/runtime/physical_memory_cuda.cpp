#include "runtime/physical_memory_cuda.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "base/math.hpp"
#include "baton/error.hpp"
#include "runtime/device_guard_cuda.hpp"
#include "runtime/driver_cuda.hpp"
#include "runtime/error_cuda.hpp"
#include "runtime/on_cuda.hpp"

namespace baton {
namespace {

CUmemAllocationProp properties_of(int device, bool shareable) {
  CUmemAllocationProp p{};
  p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.requestedHandleTypes = shareable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
  p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  p.location.id = device;
  return p;
}

bool has(int device, CUdevice_attribute attribute) {
  int value = 0;
  check(driver().device_get_attribute(&value, attribute, device),
        fmt::format("asking what device {} supports", device));
  return value != 0;
}

}  // namespace

void require_mapping_support(int device, bool shareable) {
  if (!has(device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED))
    throw unsupported{
        fmt::format("device {} does not support the CUDA virtual memory calls that windows need", device)};
  if (shareable && !has(device, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED))
    throw unsupported{fmt::format(
        "device {} cannot share memory between processes by file descriptor; run all ranks in one process",
        device)};
}

std::size_t align_to_granularity(int device, std::size_t bytes, bool shareable) {
  const CUmemAllocationProp p = properties_of(device, shareable);
  std::size_t unit = 0;
  check(driver().mem_get_allocation_granularity(&unit, &p, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
        fmt::format("asking for the allocation unit of device {}", device));
  return align_up(larger(bytes, std::size_t{1}), unit);
}

physical_memory physical_memory::create(int device, std::size_t bytes, bool shareable,
                                        const memory_use& use) {
  const CUmemAllocationProp p = properties_of(device, shareable);
  CUmemGenericAllocationHandle handle = 0;
  const CUresult status = driver().mem_create(&handle, bytes, &p, 0);
  if (status == CUDA_ERROR_OUT_OF_MEMORY)
    throw_out_of_memory(fmt::format("memory of device {}", device), use, bytes, on_cuda::free_bytes(device));
  check(status, fmt::format("allocating {} bytes of device {} for {}", bytes, device, use.purpose));
  return {handle, bytes};
}

physical_memory physical_memory::import(const bootstrap::file_descriptor& fd, std::size_t bytes) {
  CUmemGenericAllocationHandle handle = 0;
  // The descriptor itself is the argument, not its address.
  auto* const as_pointer = reinterpret_cast<void*>(static_cast<std::uintptr_t>(fd.get()));
  check(driver().mem_import(&handle, as_pointer, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
        "importing another process's device memory");
  return {handle, bytes};
}

physical_memory::physical_memory(physical_memory&& other) noexcept
    : handle_{other.handle_}, bytes_{other.bytes_}, owns_{std::exchange(other.owns_, false)} {}

physical_memory::~physical_memory() {
  if (owns_) driver().mem_release(handle_);
}

bootstrap::file_descriptor physical_memory::export_descriptor() const {
  int fd = -1;
  check(driver().mem_export(&fd, handle_, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
        "exporting device memory as a file descriptor");
  return bootstrap::file_descriptor{fd};
}

reserved_addresses::reserved_addresses(std::size_t bytes, int home) : bytes_{bytes}, home_{home} {
  check(driver().mem_address_reserve(&at_, bytes, 0, 0, 0),
        fmt::format("reserving {} bytes of addresses", bytes));
}

reserved_addresses::~reserved_addresses() {
  // Kernels of this process may still use it. Failures have no remedy here: the process may be ending.
  int before = 0;
  if (mapped_ && cudaGetDevice(&before) == cudaSuccess && cudaSetDevice(home_) == cudaSuccess) {
    cudaDeviceSynchronize();
    cudaSetDevice(before);
  }
  if (mapped_) driver().mem_unmap(at_, bytes_);
  driver().mem_address_free(at_, bytes_);
}

void reserved_addresses::map(const physical_memory& memory, std::span<const int> devices) {
  check(driver().mem_map(at_, bytes_, 0, memory.handle_, 0), fmt::format("mapping {} bytes", bytes_));
  mapped_ = true;
  std::vector<CUmemAccessDesc> access;
  for (const int device : devices)
    access.push_back({{CU_MEM_LOCATION_TYPE_DEVICE, {device}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
  check(driver().mem_set_access(at_, bytes_, access.data(), access.size()),
        fmt::format("giving {} devices access to {} bytes", devices.size(), bytes_));
}

void reserved_addresses::unmap() {
  if (!mapped_) return;
  check(driver().mem_unmap(at_, bytes_), fmt::format("unmapping {} bytes", bytes_));
  mapped_ = false;
}

}  // namespace baton
