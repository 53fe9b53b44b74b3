#pragma once
// The verbs for memory of ranks that stores do not reach: beyond the p2p group, through a network. For contexts that have one.
//
//   put(rank, to, from, bytes)   the warp, which has met (sync_warp) behind its writes of `from`: starts a copy of this rank's
//                                memory to rank's, of whole vec16s: both addresses and the size are multiples of 16. It is read
//                                and written at any time from then on, in parts of whole vec16s; nobody is told
//   fence_puts()                 a lane: what this lane signals to a rank from here on arrives after all that this rank has put
//                                there and that happens before this call, by whichever warp. Waits for no other rank's
//                                kernels; a network may wait here until it has delivered what was put, to any rank, as
//                                NVSHMEM does over InfiniBand, and has no deadline of ours for a rank that is gone
//   signal(rank, word, value)    a lane: stores 64 bits in rank's memory. Who waits for it with acquire, at system scope, has
//                                what this lane's fences are behind, and nothing else of this rank
//   put_and_signal(lanes, of)    the warp, which has met, as before a put: for each lane of the bitmask the put of(lane), and its
//                                word: 64 bits that are stored there when this put has been delivered. Who waits for it with
//                                acquire, at system scope, has what was put, and nothing else of this rank. The word is ordered
//                                behind its put and nothing else: it may arrive before what was put earlier, fence or no fence,
//                                and no fence is for a put that has a word of its own. Waits for no other rank's kernels
//
// `to` and the word are rank's addresses as the network names them: in the simulated one they are rank's own, in NVSHMEM those of
// this rank's memory, at the same place of the symmetric heap. of(lane) may be asked several times, by all lanes together, all of
// them for one lane of the bitmask, or each for one; what another lane has it reads by broadcast.
#include "exec/exec.hpp"

namespace baton {

/// A word in another rank's memory, as the network names it, and what it is told.
struct far_word {
  int rank;
  std::uint64_t *at, value;
};

/// What is put to the word's rank, and the word that tells of it.
struct signalled_put {
  std::byte* to;
  const std::byte* from;
  int bytes;
  far_word word;
};

namespace exec_detail {
struct any_signalled_put {
  constexpr signalled_put operator()(int) const { return {}; }
};
}  // namespace exec_detail

template <class X>
concept far_exec_context = exec_context<X> && requires(X& x, std::byte* bytes, std::uint64_t* word) {
  x.put(1, bytes, bytes, 16);
  x.fence_puts();
  x.signal(1, word, std::uint64_t{});
  x.put_and_signal(1u, exec_detail::any_signalled_put{});
};

}  // namespace baton
