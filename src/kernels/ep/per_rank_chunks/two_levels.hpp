#pragma once
// Two levels (ep_levels::two), where some ranks are beyond the p2p group and all groups have as many ranks: a token is one
// message for each other group that has experts of it, and comes back as one sum of that group. In groups of one rank that is
// what one level does, which is taken then.
//
// The *counterpart* of a rank in another group is the rank there with the same place in it. Of what rank s sends, its counterpart
// is the *forwarder* in that group: tokens are put to it alone, and what the group makes of them comes back from it. Ids go to
// all ranks, as with one level: from them a forwarder knows who in its group wants what.
//
//   cell           index                                holds                                       written by
//   forward_words  [epoch & 1][group of source][chunk]  arrival words: tokens of the chunk that     the source that this rank
//                                                       ranks of this group want                    forwards for
//   tokens         [epoch & 1][source][token]           as cells.hpp has it                         the source, at its forwarder;
//   token_words    [epoch & 1][source][chunk]           as cells.hpp has it                         the forwarder, where wanted
//   sums           [rank r beyond the group][token]     r a counterpart of this rank: what r's      r, by a put
//                                                       group made of this rank's token
//                                                       r another one: what r's counterpart in      that counterpart
//                                                       this group made of a token of the rank
//                                                       that this one forwards for in r's group
//   sum_words      [rank r beyond the group][token]     likewise                                    likewise
//   wanted         [group of source][token]             bit r: rank r of this group has an expert   this rank, with the tile's
//                                                       of a token that this rank forwards          rows
//   own_sums       [group of source][token]             H fp32: this rank's part of it, where       this rank
//                                                       calls are apart
//
// The last two are of the rank's own memory. A forwarder has words of its own, as what the group wants of a chunk and what the
// forwarder itself wants of it are two numbers; the second one it then tells itself, as it tells the others. A token that it has
// no expert for lies in its window all the same, and nothing refers to it.
//
//   rank s                             its forwarder f, in group g            rank d of g
//     a chunk's tokens, once; signal -- E1 ->  awaits the chunk's forward word
//                                              copies to who wants it; publish -- F1 ->  awaits the chunk's word
//                                                                                        experts
//     awaits the sum's word        <- S1 --    adds up in order; put; signal   <- F2 --  its sum, to f; publish
//
// F1: what was put happens before the chunk's word at d is seen: f has acquired the forward word, its copies read behind a fence
//     of the proxy, and it waits until they are done before it publishes (T3 of send.hpp).
// F2: d's sum happens before f adds it: S1 of token_parts.hpp. f adds the ranks of its group ascending, in fp32, its own part
//     unrounded, and rounds once to what travels.
// L2: cells may be used again. d's tokens: f writes those of round n + 2 when it knows their rows, and so has seen d's ids of
//     n + 2: all of d's kernels of n + 1 have ended. f's tokens, forward words, and the places that s puts from: s has seen f's
//     ids of n + 1 before it begins n + 2, so f's dispatch of n has ended, which awaits every chunk that is put to it, also where
//     it wants none of it. f's sums by d: d's combine of n + 1 begins when d has seen f's ids of n + 1, so f's combine of n has
//     ended. s's sums by f, and the place of the send buffer: f has seen s's ids of n + 1, so s's combine of n has ended, which
//     awaited what was put there. Of forward words one copy would do: s awaits a sum of whatever f awaits, and so begins n + 1
//     behind f's dispatch of n. There are two as there are of all that dispatch is sent.
// Start:    as cells.hpp has it.
// Progress: three stages, of which each waits for those before it and for ids alone. Who sends waits for nobody. Who forwards
//           waits for what sources, or ranks of its group, have sent. Who receives waits for what was sent or forwarded. Warps
//           that send do so before they forward, and forward before they receive; others do not forward. So with calls apart the
//           second one of each pair forwards, and a rank's second call waits for its forwarders' second ones.
// Checked:  checks/per_rank_chunks_two_levels.cpp has the bounds and the planted bugs.
#include "kernels/ep/per_rank_chunks/params.hpp"

namespace baton::ep::per_rank_chunks {

/// Whether this rank is the forwarder of `source`.
template <class P>
BATON_FN bool forwards_for(const P& p, int source) {
  if constexpr (P::has_two_levels)
    return !p.far.near.has(source) && p.forwarder_here(source) == p.s.rank;
  else
    return false;
}

/// Whom this rank sends to what is for `ranks`, and has back from there: those of its group, and its forwarders in others.
template <class P>
BATON_FN std::uint32_t reached(const P& p, std::uint32_t ranks) {
  if constexpr (P::has_two_levels) {
    const std::uint32_t near = p.far.near_ranks(), group = near >> p.far.near.first;
    std::uint32_t all = ranks & near;
    for (int g = 0, first = 0; first < p.s.num_ranks; ++g, first += p.group_size())
      if (first != p.far.near.first && (ranks >> first & group) != 0) all |= 1u << p.counterpart(p.s.rank, g);
    return all;
  } else {
    return ranks;
  }
}

/// The rank that this one sends its sum of the source's token to.
template <class P>
BATON_FN int taker_of_sum(const P& p, int source) {
  if constexpr (P::has_two_levels)
    if (!p.far.near.has(source) && !forwards_for(p, source)) return p.forwarder_here(source);
  return source;
}

/// Which of the sums in the taker's window a rank's sum of the source's token is: `rank` is of the taker's group, or a forwarder
/// of the source.
template <class P>
BATON_FN int cell_of_sum(const P& p, int source, int rank) {
  if constexpr (P::has_two_levels)
    if (!p.far.near.has(source)) return p.counterpart(rank, p.group_of(source));
  return rank;
}

}  // namespace baton::ep::per_rank_chunks
