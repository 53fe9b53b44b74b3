// What decides how an execution goes on: the warps' stacks, memory, and what is under way. Left out is what only the race
// detector knows: two paths to one state may have different races.
#include <cstring>

#include "sim/check/execution.hpp"

namespace baton::check {
namespace {

class hasher {
 public:
  void add(std::uint64_t value) {
    hash_ = (hash_ ^ value) * 0x9e3779b97f4a7c15ull;
    hash_ ^= hash_ >> 29;
  }
  /// Stacks have redzones in sanitizer builds; they are hashed with the rest.
  [[gnu::no_sanitize_address]] void add(const void* from, std::size_t bytes) {
    const auto* at = static_cast<const std::byte*>(from);
    for (; bytes >= sizeof(std::uint64_t); bytes -= sizeof(std::uint64_t), at += sizeof(std::uint64_t)) {
      std::uint64_t value;
      std::memcpy(&value, at, sizeof value);
      add(value);
    }
  }
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 1;
};

/// Below the parked frame the switch keeps the registers.
constexpr std::size_t switch_frame_bytes = 512;

}  // namespace

std::uint64_t execution::state() const {
  hasher h;
  for (const warp_state& w : warps_) {
    h.add((w.finished ? 1u : 0u) | (w.gave_up ? 2u : 0u) | static_cast<std::uint64_t>(w.pending.what) << 8);
    h.add(reinterpret_cast<std::uintptr_t>(w.pending.address));
    h.add(w.pending.value);
    if (w.copy != nullptr) {
      h.add(reinterpret_cast<std::uintptr_t>(w.copy->to));
      h.add(reinterpret_cast<std::uintptr_t>(w.copy->from));
      h.add(w.copy->moved);
    } else if (!w.finished) {
      const auto* top = static_cast<const std::byte*>(w.stack.bottom) + w.stack.size;
      const std::byte* from = w.parked_at - switch_frame_bytes;
      h.add(from, static_cast<std::size_t>(top - from));
    }
  }
  shop_.program_memory.each_range([&h](const void* from, std::size_t bytes) { h.add(from, bytes); });
  return h.value();
}

}  // namespace baton::check
