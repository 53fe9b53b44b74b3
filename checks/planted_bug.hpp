#pragma once
// A bug as data: one rule about what a warp does wrong, and where. planted_context.hpp does it, over any back end.
//
//   {.what = verbs::release_store, .how = change::relaxed, .cell = "dispatch word"}
//   {.what = verbs::sync_warp, .how = change::lost, .warp = 0}
//   {.what = verbs::waits, .how = change::shifted, .where = "ring.slot_free", .by = 1}      the threshold is one too low
#include <cstdint>
#include <functional>
#include <string>

#include "exec/site.hpp"

namespace baton::checks {

/// A set of what a context does.
enum class verbs : std::uint32_t {
  none = 0,
  read = 1 << 0,
  write = 1 << 1,
  relaxed_store = 1 << 2,
  release_store = 1 << 3,
  add = 1 << 4,     // fetch_add and count_to
  target = 1 << 5,  // what count_to counts to
  wait = 1 << 6,
  has_given_up = 1 << 7,
  sync_warp = 1 << 8,
  sync_block = 1 << 9,
  mbarrier_init = 1 << 10,
  mbarrier_arrive = 1 << 11,
  mbarrier_expect = 1 << 12,
  mbarrier_wait = 1 << 13,
  fence_proxy = 1 << 14,
  store_lines = 1 << 15,
  wait_lines = 1 << 16,
  await_dependencies = 1 << 17,
  fence_proxy_global = 1 << 18,
  bulk_load = 1 << 19,   // by the cell it reads
  bulk_store = 1 << 20,  // by the cell it writes
  bulk_wait_read = 1 << 21,
  bulk_wait = 1 << 22,
  store_counted = 1 << 23,  // by the own block's cell of the same place
  put = 1 << 24,            // by the cell it reads; put_and_signal is one, and a signal
  fence_puts = 1 << 25,
  signal = 1 << 26,
  signals = release_store | add | mbarrier_arrive,
  waits = wait | mbarrier_wait | wait_lines,
};
constexpr verbs operator|(verbs a, verbs b) {
  return static_cast<verbs>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}
constexpr bool contains(verbs all, verbs one) {
  return (static_cast<std::uint32_t>(all) & static_cast<std::uint32_t>(one)) != 0;
}

enum class change {
  none,
  lost,     // is not done; a wait returns with what it finds
  late,     // is done after the next signal of the warp; a read is done in time, and once more then
  relaxed,  // an order, and so below
  without_release,
  without_acquire,
  narrow,  // system scope becomes device, device becomes block; a quiet wait's or an arrival's cluster, too
  plain,   // a store is a write
  own,  // an arrival, a counted store: in the own block; a wait: for the own rank's word; has_given_up: of the own waits
  shifted,  // by planted_bug::by: what is stored, added, counted to, expected; what a wait sees; a parity; lines' flags; the
            // copies that a bulk_wait leaves: one group more
  moved,    // to the cell planted_bug::by bytes further on
  torn,     // lines: the flags come before the data
  endless,  // a wait has no deadline
  taken_for_success,  // a wait that gave up returns true
};

/// What planted_bug::by is multiplied with.
enum class per { access, lap, block };  // 1; the epoch of a wait; the number of the block

/// All of what is said must hold for the rule to apply. The default is no bug.
struct planted_bug {
  verbs what = verbs::none;
  change how = change::none;
  const char* cell = nullptr;  // memory whose name begins so; or with one of several, as in "ready, departed"
  site where = {};             // of waits; for has_given_up: the kernel
  int rank = -1, block = -1, warp = -1;
  int time = 0;  // of those that fit, each warp's n-th only
  int epoch = -1;
  std::int64_t by = 0;
  per each = per::access;
  verbs until = verbs::signals;  // what is late waits for one of these
};

/// The name of the cell at an address.
using cell_names = std::function<std::string(const void*)>;

}  // namespace baton::checks
