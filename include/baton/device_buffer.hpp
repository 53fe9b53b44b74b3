#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "baton/error.hpp"
#include "baton/world.hpp"

namespace baton {

/// Copies `bytes` bytes between the host and the rank's device, or within either, in stream order. Host memory stays
/// untouched by others until the stream has been synchronised; on CUDA pageable host memory makes the call wait for the copy.
/// @throws invalid_argument  null, and bytes is not 0; so also fill_async
void copy_async(const world& rank, void* to, const void* from, std::size_t bytes, stream_ref stream = {});

/// Sets `bytes` bytes of the rank's device to `value` in stream order.
void fill_async(const world& rank, void* at, unsigned char value, std::size_t bytes, stream_ref stream = {});

/// `count` values of the rank's device, on the host: `to_host(rank, rows.row_counts, rows.num_local_experts)`.
/// Copies in stream order and waits for the stream.
/// @throws stuck  as world::synchronize
template <class T>
std::vector<T> to_host(const world& rank, const T* from, std::size_t count, stream_ref stream = {}) {
  std::vector<T> values(count);
  copy_async(rank, values.data(), from, count * sizeof(T), stream);
  rank.synchronize(stream);
  return values;
}

namespace detail {
/// Zeroed and 256-byte aligned; freed behind what is queued when its last owner lets go.
std::shared_ptr<std::byte> allocate(const world& rank, std::size_t count, std::size_t value_bytes,
                                    const memory_use& use);
void copy_now(const world& rank, void* to, const void* from, std::size_t bytes);
[[noreturn]] void throw_no_buffer();
void require_room(std::size_t values, std::size_t size);
}  // namespace detail

/// `size()` values of T in memory of one rank's device, as every function here takes them: a GPU's memory, or the host's
/// on a CPU world, where span() can be read and written in place once the stream has been synchronised.
///
///     baton::device_buffer<float> weights{rank, std::vector<float>(tokens * top_k, 0.5f)};
///     baton::device_buffer<float> out{rank, tokens * hidden};
///     moe.combine_wait(weights.data(), out.data());
///     const std::vector<float> result = out.to_host();
///
/// | member                 | order                            | host memory                                 |
/// |------------------------|----------------------------------|---------------------------------------------|
/// | device_buffer          | at once, outside of every stream | free again when it returns                  |
/// | copy_from_async        | on `stream`                      | unchanged until the stream was synchronised |
/// | copy_to_async          | on `stream`                      | alive until the stream was synchronised     |
/// | fill_async             | on `stream`; capturable          | none                                        |
/// | to_host                | on `stream`, then waits for it   | returned                                    |
///
/// Lifetime: keeps its world. May go while queued work still uses it: the CPU frees the memory behind that work, CUDA waits
/// for the device. Moved, not copied; of a buffer that was moved from, or made without memory, size() is 0 and
/// everything else throws invalid_argument.
///
/// Aligned to 256 bytes. Making one is not for hot paths: it allocates, and on CUDA it synchronises a stream of its own.
template <class T>
class device_buffer {
  static_assert(std::is_trivially_copyable_v<T>, "values are copied between host and device byte by byte");

 public:
  /// Without memory, until another is moved here.
  device_buffer() = default;

  /// Zeros: `count` values whose bytes are all 0; `count` may be 0.
  /// @throws out_of_memory  names `use.purpose` and `use.knob`
  device_buffer(const world& rank, std::size_t count, const memory_use& use = {})
      : rank_{rank}, values_{detail::allocate(rank, count, sizeof(T), use)}, size_{count} {}

  /// A copy of `values`.
  /// @throws out_of_memory  names `use.purpose` and `use.knob`
  device_buffer(const world& rank, std::span<const T> values, const memory_use& use = {})
      : device_buffer{rank, values.size(), use} {
    detail::copy_now(rank, data(), values.data(), values.size_bytes());
  }

  device_buffer(device_buffer&&) noexcept = default;
  device_buffer& operator=(device_buffer&&) noexcept = default;

  std::size_t size() const { return values_ == nullptr ? 0 : size_; }
  std::size_t size_bytes() const { return size() * sizeof(T); }
  T* data() { return at(); }
  const T* data() const { return at(); }
  std::span<T> span() { return {at(), size_}; }
  std::span<const T> span() const { return {at(), size_}; }

  /// The first values become `values`.
  /// @throws invalid_argument  `values` are more than size()
  void copy_from_async(std::span<const T> values, stream_ref stream = {}) {
    T* const to = at();
    detail::require_room(values.size(), size_);
    copy_async(rank_, to, values.data(), values.size_bytes(), stream);
  }

  /// `values` become the first values.
  /// @throws invalid_argument  `values` are more than size()
  void copy_to_async(std::span<T> values, stream_ref stream = {}) const {
    const T* const from = at();
    detail::require_room(values.size(), size_);
    copy_async(rank_, values.data(), from, values.size_bytes(), stream);
  }

  /// Every byte becomes `byte`; 0xff makes NaNs of floating-point values, by which it shows what nobody wrote.
  void fill_async(unsigned char byte, stream_ref stream = {}) {
    baton::fill_async(rank_, at(), byte, size_bytes(), stream);
  }

  /// All values. @throws stuck  as world::synchronize
  std::vector<T> to_host(stream_ref stream = {}) const { return baton::to_host(rank_, at(), size_, stream); }

 private:
  T* at() const {
    if (values_ == nullptr) detail::throw_no_buffer();
    return reinterpret_cast<T*>(values_.get());
  }

  world rank_{nullptr};
  std::shared_ptr<std::byte> values_;
  std::size_t size_ = 0;
};

}  // namespace baton
