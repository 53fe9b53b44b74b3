#pragma once
// Puts beyond the p2p group that the warp which makes them tells of itself, by a word of each rank that they are for. Where a
// rank's messages are counted, and whoever counted the last one tells of all, it is peer_window.hpp.
//
//   cell                          written by                          read by
//   what is put, in own memory    this warp's lanes, or its copies    the network, from put() on, at any time
//   where it is put, at rank d    the network                         rank d, behind the word
//   word, at rank d               the network, behind the one put     rank d: wait acquire, system
//                                 that it tells of; or, of several
//                                 puts, the lane that tells: a
//                                 signal
//
//   the warp, a word for each put                   rank d
//     writes what is put, or awaits copies there
//     all lanes meet; put_and_signal       -- E1 ->   wait(word); read
//
//   the warp, a word for several puts               rank d
//     writes what is put, or awaits copies there
//     all lanes meet; puts; all lanes meet
//     each lane that tells: fence, signal  -- E1 ->   wait(word); read
//
// E1 (arrival.hpp) is what both orders keep. A put reads what any lane has written or awaited: so lanes meet before it. A put's
//     own word is behind that put (exec/far.hpp) and nothing else: whatever was put before may come later, and who reads that
//     awaits its own word. A word for several puts is behind the fence: one lane may put for all of them, and each fences for
//     what it knows of, so they meet between.
// Start, Progress: as arrival.hpp has words; nothing here waits for another rank's kernels. A network's fence may
//     wait until it has delivered (exec/far.hpp); a put with its own word has none.
// Checked:  checks/per_rank_chunks_groups.cpp has the bounds and the planted bugs. That what was put may be written again is for
//           whoever puts to say.
#include <cstddef>
#include <cstdint>

#include "exec/far.hpp"
#include "protocol/arrival.hpp"

namespace baton {

/// An arrival word beyond the p2p group.
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

/// The warp: of each lane of the bitmask the put of(lane), and its word (exec/far.hpp).
template <far_exec_context X, class Of>
BATON_FN void put_each_and_tell(X& x, std::uint32_t lanes, Of of) {
  x.sync_warp();
  x.put_and_signal(lanes, of);
}

}  // namespace baton
