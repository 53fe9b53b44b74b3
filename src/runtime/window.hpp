#pragma once
// Memory of all ranks that each of them can address; the CPU and CUDA behind one door.
#include <cstddef>
#include <memory>
#include <string>

#include "baton/world.hpp"

namespace baton {

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

  /// @throws unsupported  if its memory can only go for good
  virtual void require_releasable() const {}
  /// Gives the memory back, and keeps the addresses; no rank's queued work may use it. Collective: when a rank returns, all have.
  virtual void release() = 0;
  /// Memory at the same addresses, zeroed before any rank returns. Collective; where it throws, on all ranks, it stays
  /// released. @throws out_of_memory, transport_error
  virtual void reacquire() = 0;
  /// release() of what this rank has, for when there are no others to do it with.
  virtual void drop() noexcept = 0;
};
std::unique_ptr<symmetric_window> make_window(const world& world, std::size_t bytes,
                                              const std::string& purpose, const std::string& knob);

/// The same for this rank alone: peer(0) is its memory, and nothing is collective.
std::unique_ptr<symmetric_window> make_private_memory(const world& world, std::size_t bytes,
                                                      const std::string& purpose, const std::string& knob);

}  // namespace baton
