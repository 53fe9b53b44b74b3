#pragma once
// How the host reads what kernels have come to while they run: words of a rank's own memory, each of some moment.
#include <cstddef>
#include <functional>

namespace baton::ep {

/// Copies bytes of the rank's device to the host.
using progress_reader = std::function<void(void* to, const void* from, std::size_t bytes)>;

template <class T>
T read_word(const progress_reader& read, const T* from) {
  T value{};
  read(&value, from, sizeof(T));
  return value;
}

}  // namespace baton::ep
