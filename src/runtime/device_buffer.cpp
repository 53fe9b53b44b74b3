#include "baton/device_buffer.hpp"

#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <utility>

#include "runtime/host_memory.hpp"
#include "runtime/on_cuda.hpp"
#include "runtime/world_state.hpp"
#include "sim/machine.hpp"

namespace baton {
namespace {

/// More than any device has, and still a number that can be rounded up.
constexpr std::size_t too_many_bytes = std::numeric_limits<std::size_t>::max() / 2;

std::shared_ptr<std::byte> allocate_on_cpu(const detail::world_state& state, std::size_t bytes,
                                           const memory_use& use) {
  std::shared_ptr<std::byte> memory = allocate_host(bytes, use);
  std::byte* const at = memory.get();
  return {at, [machine = state.machine, memory](std::byte*) mutable { machine->release(std::move(memory)); }};
}

void require_memory(const char* name, const void* at, std::size_t bytes) {
  if (at == nullptr) throw invalid_argument{fmt::format("{}: null, expected {} bytes", name, bytes)};
}

}  // namespace

std::shared_ptr<std::byte> detail::allocate(const world& rank, std::size_t count, std::size_t value_bytes,
                                            const memory_use& use) {
  const std::size_t bytes = count > too_many_bytes / value_bytes ? too_many_bytes : count * value_bytes;
  return rank.device() == device_kind::cuda ? on_cuda::allocate(rank.state(), bytes, use)
                                            : allocate_on_cpu(rank.state(), bytes, use);
}

void detail::copy_now(const world& rank, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  if (rank.device() == device_kind::cuda) return on_cuda::copy_now(rank.state(), to, from, bytes);
  std::memcpy(to, from, bytes);
}

void detail::throw_no_buffer() {
  throw invalid_argument{"device_buffer: moved from, or made without a world; use the one it was moved to"};
}

void detail::require_room(std::size_t values, std::size_t size) {
  if (values > size)
    throw invalid_argument{fmt::format(
        "values: {} of them, expected at most the {} of the device_buffer; make it larger", values, size)};
}

void copy_async(const world& rank, void* to, const void* from, std::size_t bytes, stream_ref stream) {
  if (bytes == 0) return;
  require_memory("to", to, bytes);
  require_memory("from", from, bytes);
  const detail::world_state& state = rank.state();
  if (rank.device() == device_kind::cuda) return on_cuda::copy(state, to, from, bytes, stream);
  state.machine->host(
      state.rank, [to, from, bytes] { std::memcpy(to, from, bytes); }, stream.native);
}

void fill_async(const world& rank, void* at, unsigned char value, std::size_t bytes, stream_ref stream) {
  if (bytes == 0) return;
  require_memory("at", at, bytes);
  const detail::world_state& state = rank.state();
  if (rank.device() == device_kind::cuda) return on_cuda::fill(state, at, value, bytes, stream);
  state.machine->host(
      state.rank, [at, value, bytes] { std::memset(at, value, bytes); }, stream.native);
}

}  // namespace baton
