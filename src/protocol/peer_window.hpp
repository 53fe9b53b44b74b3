#pragma once
// peer_window: how a rank's bytes and words reach the windows of its peers. Kernels name one, and no peer's pointer.
//
//   verb                               who       what it does                            peer_stores       peer_puts, far
//   messages.of(rank, n) + offset      a lane    where to write the n-th message, for    rank's memory     the send buffer
//                                                `offset` of rank's part
//   messages.put(x, rank, offset, n)   the warp  sends what it has written there         (none)            starts the copy
//   publish<Policy>(x, words.of(rank)  a lane    rank's i-th word, behind all messages   a release store   a signal behind a
//           + i, epoch, count)                   to it that happen before this call      at system scope   fence of puts
//
//   cell                         written by                     read by
//   send buffer, message n       one warp, once a phase         the network, from put() on, at any time
//   word[i], in rank's window    as arrival.hpp has it          as arrival.hpp has it
//
// E1 (arrival.hpp) is what publish keeps, whatever the way of the bytes: who publishes knows of all puts, as completion.hpp
//     counts messages behind them (C1), and its fence has the word arrive after them. A word may arrive before any other put.
// S1: a place of the send buffer is written again in the next round's phase. By then every rank has said, in the other phase
//     (E2), that it has read what arrived, so nothing of it is on its way. Each phase has a buffer of its own: within a round
//     nobody has said anything yet. So no kernel waits for its puts to put anew.
// Start:    a send buffer has no value.
// Progress: who sends waits for no other rank's kernels. A network's fence may wait until it has delivered (exec/far.hpp).
// Checked:  checks/exchange_groups.cpp has the bounds and the planted bugs. Layout per_rank in chunks uses p2p_group, and puts
//           that a warp tells of itself: told_puts.hpp.
#include <cstddef>
#include <cstdint>

#include "base/math.hpp"
#include "exec/far.hpp"
#include "protocol/arrival.hpp"
#include "protocol/ep_local_sync_counters.hpp"

namespace baton {

/// Ranks of a p2p group.
inline constexpr int most_near_peers = max_gpus_per_node;
/// Ranks in all, on however many hosts: a lane of a warp each, and a bit of a word.
inline constexpr int most_peers = warp_lanes;

/// All ranks are in the p2p group: a rank stores straight into its peers' memory, and several warps may share a message.
struct peer_stores {
  static constexpr bool goes_by_put = false;
  static constexpr int most_ranks = most_near_peers;

  /// A part of each rank's window, as this rank addresses it.
  struct messages {
    std::byte* of_rank[most_ranks];
    BATON_FN std::byte* of(int rank, int) const { return of_rank[rank]; }
  };

  /// Words in each rank's window, likewise.
  struct words {
    std::uint64_t* of_rank[most_ranks];
    BATON_FN std::uint64_t* of(int rank) const { return of_rank[rank]; }
  };
};

/// The ranks that reach each other's memory with stores: [first, end).
struct p2p_group {
  int first, end;
  BATON_FN bool has(int rank) const { return rank >= first && rank < end; }
  /// That of `rank`, of groups of `size`; the last one may be smaller.
  static constexpr p2p_group of(int rank, int size, int num_ranks) {
    const int first = rank / size * size;
    return {first, smaller(first + size, num_ranks)};
  }
};

/// Ranks beyond the p2p group are reached by puts of what one warp has written in this rank's send buffer.
struct peer_puts {
  static constexpr bool goes_by_put = true;
  static constexpr int most_ranks = most_peers;

  struct messages {
    std::byte* of_rank[most_ranks];  // of ranks beyond the group: as the network names them
    std::byte* send_buffer;          // [places, bytes]
    int bytes;                       // of a message
    p2p_group near;

    struct place {
      std::byte* at;
      bool is_far;
      BATON_FN std::byte* operator+(std::size_t offset) const { return is_far ? at : at + offset; }
    };
    BATON_FN place of(int rank, int nth) const {
      if (near.has(rank)) return {of_rank[rank], false};
      return {send_place(nth), true};
    }
    template <far_exec_context X>
    BATON_FN void put(X& x, int rank, std::size_t offset, int nth) const {
      if (near.has(rank)) return;
      x.sync_warp();  // all lanes' writes are behind the put
      x.put(rank, of_rank[rank] + offset, send_place(nth), bytes);
    }
    BATON_FN std::byte* send_place(int nth) const { return send_buffer + std::int64_t{nth} * bytes; }
  };

  struct words {
    std::uint64_t* of_rank[most_ranks];
    p2p_group near;

    struct word {
      std::uint64_t* at;
      int rank;
      bool is_far;
      BATON_FN word operator+(int nth) const { return {at + nth, rank, is_far}; }
    };
    BATON_FN word of(int rank) const { return {of_rank[rank], rank, !near.has(rank)}; }
  };
};

/// One lane: as publish of a word that stores reach.
template <class Policy, far_exec_context X>
BATON_FN void publish(X& x, const peer_puts::words::word& word, std::uint32_t epoch, int count) {
  if (!word.is_far) return publish<Policy>(x, word.at, epoch, count);
  x.fence_puts();
  x.signal(word.rank, word.at, Policy::word(epoch, static_cast<std::uint32_t>(count)));
}

}  // namespace baton
