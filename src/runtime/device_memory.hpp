#pragma once
// Memory of one rank's device, and stream-ordered copies; the CPU and CUDA behind one door.
#include <cstddef>
#include <memory>
#include <string>

#include "baton/world.hpp"

namespace baton {

/// Zeroed memory of the world's device, 256-byte aligned; freed with the object, behind what is queued then.
/// Throws out_of_memory naming `purpose` and `knob` ("lower num_max_tokens_per_rank").
class device_buffer {
 public:
  device_buffer() = default;
  device_buffer(const world& world, std::size_t bytes, const std::string& purpose, const std::string& knob);

  std::byte* data() const { return data_.get(); }
  std::size_t bytes() const { return bytes_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_.get());
  }

 private:
  std::shared_ptr<std::byte> data_;
  std::size_t bytes_ = 0;
};

/// Collective: throws out_of_memory on all ranks if what they ask for together is not there. For an object that
/// allocates in several steps; each step alone would be granted.
void require_memory_of_all(const world& world, std::size_t bytes, const std::string& purpose,
                           const std::string& knob);

/// Memory that every rank of the world can address. Collective; zeroed before any rank returns.
/// peer(r) is rank r's block as this rank sees it; peer(rank()) == local().
class symmetric_window {
 public:
  virtual ~symmetric_window() = default;
  virtual std::byte* peer(int rank) const = 0;
  virtual std::size_t bytes() const = 0;
  template <class T>
  T* peer_as(int rank, std::size_t offset = 0) const {
    return reinterpret_cast<T*>(peer(rank) + offset);
  }
};
std::unique_ptr<symmetric_window> make_window(const world& world, std::size_t bytes,
                                              const std::string& purpose, const std::string& knob);

/// Copies in stream order between host and this rank's device, either way. The host memory must stay
/// untouched until the stream has passed; on CUDA pageable memory makes the call wait for the copy.
void copy_async(const world& world, void* to, const void* from, std::size_t bytes, stream_ref stream);

/// Sets `bytes` bytes to `value` in stream order.
void fill_async(const world& world, void* at, unsigned char value, std::size_t bytes, stream_ref stream);

/// SMs a kernel of this rank may use: the device's, divided by the ranks that share it; 2 on the CPU.
int sms_of(const world& world);

}  // namespace baton
