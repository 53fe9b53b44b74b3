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
//   nothing, or to who waited for nobody else. Ranks that wait in a circle have it from whoever of the others told nothing.
//
// Order:    none is needed. A word is all that its writer tells: nobody reads anything else of that rank for having seen it, and
//           it is written once, so that who has found it finds it again. So loads are relaxed; the release and the acquire of
//           publish and await are arrival.hpp's, and nothing here leans on them.
// Start:    all bytes 0.
// Progress: a rank tells all before it waits, and waits so many slices of a deadline at most: until all have told but the one
//           that it takes for lost. With one rank lost that is as soon as the last of the others gave up. Where several tell
//           nothing, as where some have all they wait for, the slices end, and who stands at the end of the chain is named.
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
  return silent < 0 ? loss{waited_for, false} : loss{silent, true};
}

/// One warp: tells all ranks that this one gave up waiting for `waited_for`, which is itself if for no other, and says who was
/// lost. It waits for others no longer than so many deadlines of the context.
template <far_exec_context X>
BATON_FN int find_lost(X& x, const loss_words& l, int waited_for, int slices) {
  x.each_lane([&](int r) {
    if (r < l.num_ranks) publish<epoch_arrival>(x, l.of_ranks.of(r) + l.rank, 1, waited_for);
  });
  x.sync_warp();
  std::uint64_t* const own = l.of_ranks.of(l.rank).at;
  for (int slice = 0;; ++slice) {
    const loss found = follow(x, l, waited_for);
    if (!found.told_nothing || slice == slices) return found.rank;
    typename X::template lanes<std::uint64_t*> words;
    typename X::template lanes<std::uint64_t> seen;
    x.each_lane([&](int r) { words[r] = r < l.num_ranks && r != found.rank ? own + r : nullptr; });
    if (await<epoch_arrival>(x, words, l.num_ranks - 1,
                             {.where = lost_sites::told(), .peer = found.rank, .epoch = 1}, seen))
      slice = slices - 1;  // one more look
  }
}

}  // namespace baton
