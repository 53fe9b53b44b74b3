#pragma once
// What a warp asks of the checker, and who can hear whom.
#include <array>
#include <cstddef>
#include <cstdint>

#include "exec/exec.hpp"

namespace baton::check {

/// Where a warp lives. Scopes are judged by it.
struct position {
  int rank = 0;
  int block = 0;
  int warp = 0;
  friend bool operator==(const position&, const position&) = default;
};

/// `other` is inside the scope `reach` of `self`.
inline bool reaches(const position& self, scope reach, const position& other) {
  if (reach == scope::system) return true;
  return self.rank == other.rank && (reach == scope::device || self.block == other.block);
}

inline scope narrower(scope a, scope b) {
  return a < b ? a : b;
}

enum class verb : std::uint8_t {
  none,
  load,
  store,
  fetch_add,
  fetch_min,
  exchange,
  wait,
  sync_block,
  next_kernel,
  fence,
  read,
  write,
};

constexpr bool is_rmw(verb v) {
  return v == verb::fetch_add || v == verb::fetch_min || v == verb::exchange;
}
constexpr bool is_write(verb v) {
  return v == verb::store || is_rmw(v);
}
constexpr bool is_barrier(verb v) {
  return v == verb::sync_block || v == verb::next_kernel;
}
constexpr bool acquires(order o) {
  return o == order::acquire || o == order::acq_rel;
}
constexpr bool releases(order o) {
  return o == order::release || o == order::acq_rel;
}

/// One word of a wait: which lane polls it. The word's value when the wait ended comes back in `seen`.
struct awaited_word {
  int lane = 0;
  const void* address = nullptr;
  std::uint64_t seen = 0;
};

/// A wait of the whole warp; lives on the waiting fiber's stack.
struct wait_request {
  wait_site where;
  std::array<awaited_word, warp_lanes> words;
  int num_words = 0;
  bool may_time_out = false;
  const void* predicate = nullptr;
  bool (*holds)(const void* predicate, int lane, std::uint64_t value) = nullptr;
};

/// The next thing a parked warp wants to do.
struct operation {
  verb what = verb::none;
  order ordering = order::relaxed;
  scope reach = scope::system;
  int bytes = 0;
  const void* address = nullptr;  // of the word; null for waits and barriers
  std::uint64_t value = 0;        // what is stored, added, compared
  wait_request* wait = nullptr;
};

}  // namespace baton::check
