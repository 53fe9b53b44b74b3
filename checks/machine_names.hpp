#pragma once
// Names of cells on the CPU machine, for bugs planted there: as check::program has them in explorations.
#include <cstdint>
#include <string>
#include <utility>

#include "checks/planted_bug.hpp"
#include "sim/check/names.hpp"

namespace baton::checks {

class machine_names {
 public:
  /// A part of every block's shared memory.
  void name_shared(std::size_t offset, std::size_t element_bytes, std::size_t count, std::string name) {
    shared_.add(reinterpret_cast<const void*>(offset), element_bytes, count, std::move(name));
  }
  template <class T>
  void name(const T* first, std::string name, std::size_t count) {
    memory_.add(first, sizeof(T), count, std::move(name));
  }

  /// As a warp sees them whose block has this shared memory. Must not outlive this object.
  cell_names of(const std::byte* shared, std::size_t shared_bytes) const {
    return [this, shared, shared_bytes](const void* at) {
      const auto offset = reinterpret_cast<std::uintptr_t>(at) - reinterpret_cast<std::uintptr_t>(shared);
      return offset < shared_bytes ? shared_.of(reinterpret_cast<const void*>(offset)) : memory_.of(at);
    };
  }

 private:
  check::name_table shared_, memory_;
};

}  // namespace baton::checks
