#pragma once
// Who was lost: a rank whose wait gave up tells all others for whom it waited. That one may have waited itself, and tells so,
// too; who was waited for and tells nothing was lost. So all who gave up name the same rank, whomever each waited for itself.
//
//   cell                             written by                                read by
//   word [source], 64 bits, in       rank `source`, at most once while the     a warp of the owner, once it gave up itself:
//   every rank's window              memory lasts, when it gave up             load relaxed, wait acquire, system
//
//   word             means
//   0                the rank told nothing: it goes on, waits, or was lost
//   {1, check, r}    arrival_word: it gave up waiting for rank r; r itself: for nobody else, or it refused what it found
//   anything else    the same as 0
//
//   who it is, as one rank sees it: whom it waited for; if that one told, whom that one waited for; and so on, to who told
//   nothing, or to who waited for nobody else. Ranks that wait in a circle have it from whoever of the others told nothing. Where
//   all told, it is one of the circle: of its ranks of the own group, but itself, whom most ranks waited for; where there is
//   none, of all its ranks; of several such the lowest.
//
//   A circle is what the group of a rank sees whose *network* alone is gone: by stores they hear that it waits for a rank beyond,
//   which waits for it. The one beyond is heard through the network, and so has one: hence the own group, however many others
//   wait for the one beyond, as they do once it has given up. To ranks beyond it is silent, as one that was lost. So all its
//   survivors name the same rank. Who waits in a circle with all networks whole, as two ranks do whose messages to each other
//   alone were lost, is in each group one of its own: words do not say more.
//
// Order:    none is needed. A word is all that its writer tells: nobody reads anything else of that rank for having seen it, and
//           it is written once, so that who has found it finds it again. So loads are relaxed, and beyond the group a word is
//           signalled without a fence, which might wait for the rank that is gone (exec/far.hpp); the release and the acquire
//           of publish and await are arrival.hpp's, and nothing here leans on them.
// Start:    all bytes 0.
// Progress: a rank tells all before it waits, the one it waited for last: where that one is dead, and the network's queue to it
//           is full, the others have been told. It waits so many slices of a deadline at most: until all have told but the one
//           that it takes for lost, and for that one so many slices more as it may be alive and still wait: one, or where some
//           wait two deadlines, as for a forwarder, a deadline more. With one rank lost that is as long after the last of the
//           others gave up. Where several tell nothing, as where some have all they wait for, the slices end, and who stands at
//           the end of the chain is named.
// Checked:  checks/lost_rank.cpp has the bounds and the planted bugs.
#include "base/bits.hpp"
#include "protocol/peer_window.hpp"

namespace baton {

struct lost_sites {
  static consteval site told() { return "lost.told"; }
};

/// The words of a communicator, as one rank reaches them.
struct loss_words {
  peer_puts::words of_ranks;  // [ranks] in each rank's window
  std::int32_t rank, num_ranks;
};

/// How long a rank hears others, in slices of a deadline.
struct hearing {
  int slices;      // at most
  int for_silent;  // of which for who tells nothing when all others have told; at least 1
};

/// What the words say of `named`, for whom a rank waited.
struct loss {
  int rank;           // who was lost, or who was waited for last
  bool told_nothing;  // whether it may still tell
};

/// The rank that a word names; -1: none.
BATON_FN int named_by(const loss_words& l, std::uint64_t word) {
  const auto most = static_cast<std::uint32_t>(l.num_ranks - 1);
  return epoch_arrival::arrived(word, 1, most) ? epoch_arrival::count(word) : -1;
}

/// One warp. Whoever told nothing, the lowest; -1: all told.
template <exec_context X>
BATON_FN int silent_rank(X& x, const loss_words& l, const typename X::template lanes<int>& named) {
  typename X::template lanes<bool> silent;
  x.each_lane([&](int r) { silent[r] = r < l.num_ranks && named[r] < 0; });
  const std::uint32_t all = x.ballot(silent);
  return all != 0 ? lowest_bit(all) : -1;
}

/// One warp: of ranks that wait in a circle, of which `at` is one, who it is.
template <exec_context X>
BATON_FN int lost_of_circle(X& x, const loss_words& l, const typename X::template lanes<int>& named, int at) {
  std::uint32_t circle = 0, neighbours = 0;
  for (; (circle >> at & 1) == 0; at = x.broadcast(named, at)) {
    circle |= 1u << at;
    if (at != l.rank && l.of_ranks.near.has(at)) neighbours |= 1u << at;
  }
  int most = -1, most_votes = 0;
  for (std::uint32_t left = neighbours != 0 ? neighbours : circle; left != 0; left &= left - 1) {
    const int rank = lowest_bit(left);
    typename X::template lanes<bool> waits;
    x.each_lane([&](int r) { waits[r] = named[r] == rank; });
    const int votes = count_bits(x.ballot(waits));
    if (votes > most_votes) most = rank, most_votes = votes;
  }
  return most;
}

/// One warp: the end of the chain that begins with `waited_for`.
template <exec_context X>
BATON_FN loss follow(X& x, const loss_words& l, int waited_for) {
  typename X::template lanes<int> named;
  std::uint64_t* const own = l.of_ranks.of(l.rank).at;
  x.each_lane([&](int r) {
    named[r] = r < l.num_ranks ? named_by(l, x.template load<order::relaxed, scope::system>(own + r)) : -1;
  });
  int at = waited_for;
  for (int links = 0; links < l.num_ranks; ++links) {
    const int next = x.broadcast(named, at);
    if (next < 0) return {at, true};
    if (next == at) return {at, false};
    at = next;
  }
  const int silent = silent_rank(x, l, named);  // a circle
  return silent < 0 ? loss{lost_of_circle(x, l, named, at), false} : loss{silent, true};
}

/// One lane: that this rank gave up waiting for `waited_for`.
template <far_exec_context X>
BATON_FN void tell_of_loss(X& x, const peer_puts::words::word& word, int waited_for) {
  if (!word.is_far) return publish<epoch_arrival>(x, word.at, 1, waited_for);
  x.signal(word.rank, word.at, epoch_arrival::word(1, static_cast<std::uint32_t>(waited_for)));
}

/// One warp: tells all ranks that this one gave up waiting for `waited_for`, which is itself if for no other, and says who was
/// lost. A slice is a deadline of the context.
template <far_exec_context X>
BATON_FN int find_lost(X& x, const loss_words& l, int waited_for, const hearing& most) {
  x.each_lane([&](int r) {
    if (r < l.num_ranks && r != waited_for) tell_of_loss(x, l.of_ranks.of(r) + l.rank, waited_for);
  });
  x.sync_warp();
  x.elect([&] { tell_of_loss(x, l.of_ranks.of(waited_for) + l.rank, waited_for); });
  x.sync_warp();
  std::uint64_t* const own = l.of_ranks.of(l.rank).at;
  for (int slice = 0;; ++slice) {
    const loss found = follow(x, l, waited_for);
    if (!found.told_nothing || slice >= most.slices) return found.rank;
    const bool for_silent = slice >= most.slices - most.for_silent;
    typename X::template lanes<std::uint64_t*> words;
    typename X::template lanes<std::uint64_t> seen;
    x.each_lane(
        [&](int r) { words[r] = r < l.num_ranks && (for_silent || r != found.rank) ? own + r : nullptr; });
    if (await<epoch_arrival>(x, words, l.num_ranks - 1,
                             {.where = lost_sites::told(), .peer = found.rank, .epoch = 1}, seen))
      slice = larger(slice, most.slices - most.for_silent - 1);  // those for the silent one are next
  }
}

}  // namespace baton
