#include <atomic>
#include <cstring>

#include "sim/context.hpp"
#include "sim/machine_state.hpp"

namespace baton::sim {
namespace {

using tail_word = std::uint64_t;  // of a line: by it readers know that the line is there
constexpr std::size_t before_tail = line_bytes - sizeof(tail_word);

std::atomic_ref<tail_word> tail_at(std::byte* line) {
  return std::atomic_ref{*reinterpret_cast<tail_word*>(line + before_tail)};
}

/// A rank in another process reads while this one writes, and each may be interrupted in the middle: the tail is written last and
/// read first, so that who sees it sees the line.
void write_line(std::byte* to, const vec16* whole) {
  tail_word tail;
  std::memcpy(&tail, reinterpret_cast<const std::byte*>(whole) + before_tail, sizeof tail);
  std::memcpy(to, whole, before_tail);
  tail_at(to).store(tail, std::memory_order_release);
}

void read_line(vec16* whole, const std::byte* from) {
  const tail_word tail = tail_at(const_cast<std::byte*>(from)).load(std::memory_order_acquire);
  std::memcpy(static_cast<void*>(whole), from, before_tail);
  std::memcpy(reinterpret_cast<std::byte*>(whole) + before_tail, &tail, sizeof tail);
}

}  // namespace

void context::store_lines(std::byte* to, const lanes<vec16>& v) {
  require_whole("store_lines");
  scheduling_point();
  for (int line = 0; line < lines_of_access; ++line) {
    vec16 whole[lanes_of_line];
    for (int i = 0; i < lanes_of_line; ++i) whole[i] = v[line * lanes_of_line + i];
    std::byte* at = to + line * line_bytes;
    if (delays_) {
      delayed_write(at, whole, line_bytes);
    } else {
      write_line(at, whole);
    }
  }
  changed();
  after_signal();
}

context::lanes<vec16> context::load_lines(const std::byte* from) {
  require_whole("load_lines");
  before_read(from, line_access_bytes);
  lanes<vec16> v;
  for (int line = 0; line < lines_of_access; ++line)
    read_line(v.value + line * lanes_of_line, from + line * line_bytes);
  return v;
}

}  // namespace baton::sim
