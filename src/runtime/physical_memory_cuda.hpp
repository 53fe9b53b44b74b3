#pragma once
// Device memory as the CUDA driver's virtual memory management sees it: physical memory, and where it is
// mapped.
#include <cuda.h>

#include <cstddef>
#include <span>

#include "bootstrap/file_descriptor.hpp"
#include "runtime/host_memory.hpp"

namespace baton {

/// One allocation, of this process or imported from another. Lives on where it is mapped when this is gone.
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

 private:
  friend class reserved_addresses;
  physical_memory(CUmemGenericAllocationHandle handle, std::size_t bytes) : handle_{handle}, bytes_{bytes} {}
  CUmemGenericAllocationHandle handle_;
  std::size_t bytes_;
  bool owns_ = true;
};

/// Addresses of this process, and what lies there while it is mapped.
class reserved_addresses {
 public:
  /// `home` is synchronised before the end of this unmaps. @throws cuda_error
  reserved_addresses(std::size_t bytes, int home);
  ~reserved_addresses();
  reserved_addresses(const reserved_addresses&) = delete;
  reserved_addresses& operator=(const reserved_addresses&) = delete;

  /// Readable and writable from each of `devices`; nothing is mapped yet. @throws cuda_error
  void map(const physical_memory& memory, std::span<const int> devices);
  /// If something is mapped; no work may use it. What nobody else maps is free then.
  void unmap();

  std::byte* data() const { return reinterpret_cast<std::byte*>(at_); }
  std::size_t bytes() const { return bytes_; }

 private:
  CUdeviceptr at_ = 0;
  std::size_t bytes_;
  int home_;
  bool mapped_ = false;
};

/// `bytes` rounded up to what `device` can allocate; at least one unit.
std::size_t align_to_granularity(int device, std::size_t bytes, bool shareable);

/// @throws unsupported  the device cannot map memory, or (shareable) cannot export it
void require_mapping_support(int device, bool shareable);

}  // namespace baton
