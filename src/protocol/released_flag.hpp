#pragma once
// Released flags: a word that tells of what its writer knows to be done.
//
//   cell                       written by                               read by
//   flag, 64 bits, in the      a lane of the sender, at most once a     a warp of the owner: wait acquire, system
//   owner's window             round: store release, system
//
//   state of a flag            seen by a reader in round n
//   of a round before          not here yet: loads again
//   of round n                 here, and all that it tells of
//   anything else              never ends a wait; reported as a stuck record with the flag as seen
//
// E1: what happens before tell_flags(), for the lanes that tell, happens before what follows await_flags().
// W2: a flag may be written again when its reader has acted on it: whoever uses flags says why it has.
// Start:    all bytes 0; the first round is 1. Flags are those of lines (line.hpp): all rounds differ, in many bits.
// Progress: no wait precedes the release it depends on; a reader waits only for flags that it knows somebody stores.
#include "protocol/line.hpp"

namespace baton {

/// The warp: each lane whose flag is not null tells of what has happened before.
template <exec_context X>
BATON_FN void tell_flags(X& x, const typename X::template lanes<std::uint64_t*>& flags, std::uint64_t epoch) {
  x.each_lane([&](int lane) {
    if (flags[lane] != nullptr)
      x.template store<order::release, scope::system>(flags[lane], line_flag(epoch));
  });
}

/// The warp: until each lane's flag (null: none) is that of the round. False: gave up.
template <exec_context X>
BATON_FN bool await_flags(X& x, const typename X::template lanes<std::uint64_t*>& flags, std::uint64_t epoch,
                          wait_site where) {
  const std::uint64_t flag = line_flag(epoch);
  where.epoch = static_cast<std::uint32_t>(epoch);
  where.expected = flag;
  typename X::template lanes<std::uint64_t> seen;
  return x.template wait<order::acquire, scope::system>(
      flags, [=](int, std::uint64_t word) { return word == flag; }, where, seen);
}

}  // namespace baton
