#include <fmt/format.h>

#include "baton/error.hpp"
#include "runtime/device_guard_cuda.hpp"
#include "runtime/error_cuda.hpp"
#include "runtime/on_cuda.hpp"

namespace baton::on_cuda {
namespace {

constexpr std::size_t smallest = 256;

/// A stream that no other work of the device waits for or is waited for by.
class private_stream {
 public:
  private_stream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream"); }
  ~private_stream() { cudaStreamDestroy(stream_); }
  private_stream(const private_stream&) = delete;
  private_stream& operator=(const private_stream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace

void fill_now(int device, void* at, unsigned char value, std::size_t bytes) {
  const device_guard guard{device};
  const private_stream stream;
  check(cudaMemsetAsync(at, value, bytes, stream.get()),
        fmt::format("setting {} bytes of device {}", bytes, device));
  check(cudaStreamSynchronize(stream.get()), fmt::format("setting {} bytes of device {}", bytes, device));
}

std::size_t free_bytes(int device) {
  const device_guard guard{device};
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), fmt::format("asking how much memory device {} has left", device));
  return free;
}

std::shared_ptr<std::byte> allocate(const detail::world_state& state, std::size_t bytes,
                                    const memory_use& use) {
  const int device = state.device_index;
  const device_guard guard{device};
  const std::size_t size = bytes < smallest ? smallest : bytes;
  void* at = nullptr;
  const cudaError_t status = cudaMalloc(&at, size);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw_out_of_memory(fmt::format("memory of device {}", device), use, size, free_bytes(device));
  }
  check(status, fmt::format("allocating {} bytes of device {} for {}", size, device, use.purpose));
  // cudaFree waits for the device, so that no kernel loses memory it still uses.
  std::shared_ptr<std::byte> block{static_cast<std::byte*>(at), [](std::byte* p) { cudaFree(p); }};
  fill_now(device, at, 0, size);
  return block;
}

bool reaches(const detail::world_state& state, const void* at) {
  const device_guard guard{state.device_index};
  cudaPointerAttributes found{};
  check(cudaPointerGetAttributes(&found, at), fmt::format("asking what memory {} is", at));
  if (found.type != cudaMemoryTypeUnregistered) return found.devicePointer == at;
  int reaches_all = 0;
  check(cudaDeviceGetAttribute(&reaches_all, cudaDevAttrPageableMemoryAccess, state.device_index),
        fmt::format("asking what memory device {} reaches", state.device_index));
  return reaches_all != 0;
}

void copy_now(const detail::world_state& state, void* to, const void* from, std::size_t bytes) {
  const device_guard guard{state.device_index};
  const private_stream stream;
  const std::string doing = fmt::format("copying {} bytes of rank {}", bytes, state.rank);
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream.get()), doing);
  check(cudaStreamSynchronize(stream.get()), doing);
}

void copy(const detail::world_state& state, void* to, const void* from, std::size_t bytes,
          stream_ref stream) {
  const device_guard guard{state.device_index};
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, static_cast<cudaStream_t>(stream.native)),
        fmt::format("copying {} bytes of rank {}", bytes, state.rank));
}

void fill(const detail::world_state& state, void* at, unsigned char value, std::size_t bytes,
          stream_ref stream) {
  const device_guard guard{state.device_index};
  check(cudaMemsetAsync(at, value, bytes, static_cast<cudaStream_t>(stream.native)),
        fmt::format("setting {} bytes of rank {}", bytes, state.rank));
}

}  // namespace baton::on_cuda
