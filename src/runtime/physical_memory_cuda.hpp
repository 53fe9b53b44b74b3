#pragma once
// Device memory as the CUDA driver's virtual memory management sees it: physical memory, and where it is
// mapped.
#include <cuda.h>

#include <cstddef>
#include <memory>
#include <span>

#include "bootstrap/file_descriptor.hpp"
#include "runtime/host_memory.hpp"

namespace baton {

/// One allocation, of this process or imported from another. Lives on under its mappings when this is gone.
class physical_memory {
 public:
  /// On `device`; `bytes` as align_to_granularity() gives it. Shareable: with a file descriptor.
  /// @throws out_of_memory
  static physical_memory create(int device, std::size_t bytes, bool shareable, const memory_use& use);
  /// What another process exported. @throws unsupported  the driver refuses
  static physical_memory import(const bootstrap::file_descriptor& fd, std::size_t bytes);

  physical_memory(physical_memory&& other) noexcept;
  physical_memory& operator=(physical_memory&&) = delete;
  ~physical_memory();

  bootstrap::file_descriptor export_descriptor() const;

  /// One address, readable and writable from each of `devices`. `home` is synchronised before it is unmapped.
  std::shared_ptr<std::byte> map(std::span<const int> devices, int home) const;

 private:
  physical_memory(CUmemGenericAllocationHandle handle, std::size_t bytes) : handle_{handle}, bytes_{bytes} {}
  CUmemGenericAllocationHandle handle_;
  std::size_t bytes_;
  bool owns_ = true;
};

/// `bytes` rounded up to what `device` can allocate; at least one unit.
std::size_t align_to_granularity(int device, std::size_t bytes, bool shareable);

/// @throws unsupported  the device cannot map memory, or (shareable) cannot export it
void require_mapping_support(int device, bool shareable);

}  // namespace baton
