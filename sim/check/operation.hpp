#pragma once
// What a warp asks of the checker, and who can hear whom.
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "exec/exec.hpp"

namespace baton::check {

/// Where a participant lives. Scopes are judged by it.
struct position {
  int rank = 0;
  int block = 0;
  int warp = 0;
  int cluster = 0;          // within the rank; settled by the execution
  int copy = 0;             // k > 0: the copy engine, busy with a copy that this warp issued
  bool is_store = false;    // of a copy: counted stores of the warp, which write as warps do
  bool is_product = false;  // of a copy: tensor cores, which read as engines do
  int asked_by = -1;        // of a copy into another block: the block whose warp asked for it
  friend bool operator==(const position&, const position&) = default;
};

/// `other` is inside the scope `reach` of `self`.
inline bool reaches(const position& self, scope reach, const position& other) {
  if (reach == scope::system || self.rank != other.rank) return reach == scope::system;
  if (reach == scope::cluster) return self.cluster == other.cluster;
  return reach == scope::device || self.block == other.block;
}

inline constexpr std::array every_scope{scope::block, scope::cluster, scope::device, scope::system};
inline constexpr std::size_t num_scopes = every_scope.size();

inline scope narrower(scope a, scope b) {
  return a < b ? a : b;
}

enum class verb : std::uint8_t {
  none,
  load,
  store,
  fetch_add,
  count_to,  // fetch_add that tells only whether it reached its target
  fetch_min,
  fetch_or,
  exchange,
  arrive,         // at an mbarrier
  arrive_expect,  // at an mbarrier, which then waits for more bytes
  count_bytes,    // the copy engine, on an mbarrier
  copied_out,     // the copy engine has read the source of a bulk_store, or tensor cores a product's operands
  wait,
  sync_block,
  sync_cluster,
  meet_cluster,
  await_dependencies,
  next_kernel,
  either,  // no access: the search answers both ways
  fence,
  fence_proxy_async,
  fence_proxy_async_global,
  fence_mbarrier_init,
  bulk_load,
  bulk_store,
  start_product,
  read,
  write,
};

constexpr bool is_rmw(verb v) {
  return v == verb::fetch_add || v == verb::count_to || v == verb::fetch_min || v == verb::fetch_or ||
         v == verb::exchange;
}
/// Changes of an mbarrier. Within a phase they commute, as counts do that are short of their target.
constexpr bool is_arrival(verb v) {
  return v == verb::arrive || v == verb::arrive_expect || v == verb::count_bytes;
}
constexpr bool is_write(verb v) {
  return v == verb::store || v == verb::copied_out || is_rmw(v) || is_arrival(v);
}
constexpr bool is_barrier(verb v) {
  return v == verb::sync_block || v == verb::sync_cluster || v == verb::meet_cluster ||
         v == verb::await_dependencies || v == verb::next_kernel;
}
/// The operation's address is that of a word.
constexpr bool has_word(verb v) {
  return v == verb::load || is_write(v);
}
constexpr bool acquires(order o) {
  return o == order::acquire || o == order::acq_rel;
}
constexpr bool releases(order o) {
  return o == order::release || o == order::acq_rel;
}

/// One word of a wait: which lane polls it. The word's value when the wait ended comes back in `seen`. In a wait for lines:
/// a line, `lane` is its number; or a word that the predicate itself loads.
struct awaited_word {
  int lane = 0;
  const void* address = nullptr;
  std::uint64_t seen = 0;
  int bytes = 0;
  scope reach = scope::system;
};

/// What a wait for lines may see: for each of its words which message; -1: its predicate does not ask.
using shown_messages = std::array<int, warp_lanes>;

/// What a wait for lines could see, as it was found when its words had so many messages.
struct line_look {
  std::size_t messages = 0;
  std::size_t draw = 0;              // chooses where not all ways are explored
  bool certain = false;              // it would end by the newest messages
  std::vector<shown_messages> ends;  // it would end so
  int oldest_refusal = -1;           // the step since when it could have seen what does not end it
  bool refuses = false;              // there is such
};

/// A wait of the whole warp; lives on the waiting fiber's stack.
struct wait_request {
  wait_site where;
  std::array<awaited_word, warp_lanes> words;
  int num_words = 0;
  bool may_time_out = false;
  bool is_phase = false;  // the word is an mbarrier
  int num_lines = 0;      // of a wait for lines: the first words are lines, four for each place
  bool is_look = false;   // load_lines: nothing is awaited
  int asked_at = 0;       // of a wait for lines: the steps before; what is drawn depends on it
  line_look look{};
  const void* predicate = nullptr;
  bool (*holds)(const void* predicate, int lane, std::uint64_t value) = nullptr;
  /// Of a wait for lines, instead: what the group-th line of every place shows to its lanes.
  bool (*group_holds)(const void* predicate, int group, const std::byte* const* lines) = nullptr;
};

/// What a release covers.
enum class tells : std::uint8_t {
  all,         // that its warp did or knows of
  own_stores,  // of counted stores, and that what their lanes had heard of is over
  ends,        // that what was read, arrived at or heard of is over, nothing of what was written
};

/// The next thing a parked warp wants to do.
struct operation {
  verb what = verb::none;
  order ordering = order::relaxed;
  scope reach = scope::system;
  int bytes = 0;
  const void* address = nullptr;  // of the word; null for waits and barriers
  std::uint64_t value = 0;        // what is stored, added, compared; arrivals or bytes
  wait_request* wait = nullptr;
  bool from_outside = false;  // an mbarrier of another block, or changed by the copy engine
  std::uint64_t target = 0;   // of a count
  tells covers = tells::all;  // of an arrival
};

}  // namespace baton::check
