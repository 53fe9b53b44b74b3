#pragma once
// Puts beyond the p2p group that the warp which makes them tells of itself, by a word of each rank that they are for. Where a
// rank's messages are counted, and whoever counted the last one tells of all, it is peer_window.hpp.
//
//   cell                          written by                          read by
//   what is put, in own memory    this warp's lanes, or its copies    the network, from put() on, at any time
//   where it is put, at rank d    the network                         rank d, behind the word
//   word, at rank d               the lane that tells: a signal       rank d: wait acquire, system
//
//   the warp                                        rank d
//     writes what is put, or awaits copies there
//     all lanes meet; puts; all lanes meet
//     each lane that tells: fence, signal  -- E1 ->   wait(word); read
//
// E1 (arrival.hpp) is what this order keeps. A put reads what any lane has written or awaited: so lanes meet before it. One lane
//     may put for all of them, and each fences for what it knows of: so they meet behind it, unless the lane that puts tells.
// Start, Progress: as arrival.hpp has words; nothing here waits for another rank's kernels. A network's fence may
//     wait until it has delivered (exec/far.hpp).
// Checked:  checks/per_rank_chunks_groups.cpp has the bounds and the planted bugs. That what was put may be written again is for
//           whoever puts to say.
#include <cstddef>
#include <cstdint>

#include "exec/far.hpp"
#include "protocol/arrival.hpp"

namespace baton {

/// An arrival word beyond the p2p group, as the network names it, and what it is told.
struct far_word {
  int rank;
  std::uint64_t *at, value;
};
BATON_FN far_word word_of_round(int rank, std::byte* at, std::uint32_t epoch, std::uint32_t count) {
  return {rank, reinterpret_cast<std::uint64_t*>(at), epoch_arrival::word(epoch, count)};
}

/// One lane: told(), a far word, of all puts to that rank that happen before this call. It is asked for behind the fence, so that
/// nothing is kept in registers over what a network does there.
template <far_exec_context X, class Told>
BATON_FN void tell_of_puts(X& x, Told told) {
  x.fence_puts();
  const far_word word = told();
  x.signal(word.rank, word.at, word.value);
}

/// The warp: puts(), and behind them tells(lane), by which lanes tell of puts.
template <far_exec_context X, class Puts, class Tells>
BATON_FN void put_and_tell(X& x, Puts puts, Tells tells) {
  x.sync_warp();
  puts();
  x.sync_warp();
  x.each_lane(tells);
  x.sync_warp();
}

/// The warp: put(), of one put, and behind it told(), by the lane that may have put for all.
template <far_exec_context X, class Put, class Told>
BATON_FN void put_one_and_tell(X& x, Put put, Told told) {
  x.sync_warp();
  put();
  x.elect([&] { tell_of_puts(x, told); });
}

}  // namespace baton
