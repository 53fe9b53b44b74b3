#pragma once
// What a waiting warp knows, how long it may wait, and the record of a wait that never ended.
#include <cstdint>

#include "exec/site.hpp"

namespace baton {

/// What a waiting warp knows about its wait; goes into the record if the wait never ends.
struct wait_site {
  site where = {};
  std::int32_t peer = -1;      // the rank that should have acted; -1: another block of this rank
  std::uint32_t epoch = 0;     // the round it waits in
  std::uint64_t expected = 0;  // the value that would have ended the wait
  std::uint32_t patience =
      1;  // deadlines to wait: 2 where the cause is another block's wait, which should report
  std::int32_t peer_modulus = 0;  // > 0: lane l waits for rank (peer + l) % peer_modulus
};

/// The rank that `lane` waits for.
constexpr std::int32_t peer_of(const wait_site& at, int lane) {
  return at.peer_modulus > 0 ? (at.peer + lane) % at.peer_modulus : at.peer;
}

/// Written to host-mapped memory by the first wait of a rank that outlives its deadline, or its first refusal; 64 bytes,
/// claimed by compare-and-swap on `claimed`. The host turns it into baton::stuck.
struct alignas(64) stuck_record {
  static constexpr std::uint32_t lost_is = 2;
  std::uint32_t
      claimed;  // 1, or lost_is + r: rank r was lost, by what all ranks told (protocol/lost_rank.hpp)
  std::uint32_t complete;  // set last: the other fields are valid
  std::int16_t rank;
  std::int16_t peer;
  std::uint32_t block;
  std::uint16_t warp;
  std::uint8_t lane;
  std::int8_t slot;  // wait_limits::slot
  std::uint32_t epoch;
  site where;
  std::uint64_t expected;
  std::uint64_t seen;
  std::uint64_t waited_ns;  // 0: refused
};
static_assert(sizeof(stuck_record) == 64);

/// Who is to blame: whom it waited for, or, where that is known, whom that one waited for, and so on.
constexpr std::int32_t culprit(const stuck_record& record) {
  return record.claimed < stuck_record::lost_is
             ? record.peer
             : static_cast<std::int32_t>(record.claimed - stuck_record::lost_is);
}

/// What the waits of a rank for its peers tell of themselves while kernels run, in device memory: how long they took, if they
/// were not over at once, and, as long as they last, what they wait for. Blocks share rows, and their warps the records in it: a
/// sample, which is all of it for up to `num_rows` blocks.
struct wait_log {
  static constexpr unsigned num_rows = 32, num_warps = 32,
                            num_peers = 32;  // powers of two; a communicator has no more ranks

  struct counter {
    std::uint64_t ns, waits;
  };
  struct row {
    counter counters[num_peers];      // only grow
    stuck_record waiting[num_warps];  // `complete`: the wait is not over
    constexpr counter& of_peer(int peer) { return counters[static_cast<unsigned>(peer) % num_peers]; }
    constexpr stuck_record& of_warp(int warp) { return waiting[static_cast<unsigned>(warp) % num_warps]; }
  };
  row rows[num_rows];
  constexpr row& of_block(int block) { return rows[static_cast<unsigned>(block) % num_rows]; }
};

/// How long a wait may last and where it reports. Passed to kernels by value.
struct wait_limits {
  std::uint64_t deadline_ns = 30'000'000'000;  // 0: no deadline
  std::uint32_t* abort = nullptr;              // device memory; nonzero: every wait of this rank returns
  stuck_record* record = nullptr;              // host-mapped memory
  wait_log* log = nullptr;                     // device memory
  std::int32_t slot = -1;                      // of the communicator whose round it is; -1: it has one
};

}  // namespace baton
