#pragma once
// Released flags: data that is stored plainly, and told of by a word beside it.
//
//   cell                       written by                               read by
//   data, in the owner's       one warp of the sender, at most once a   warps of the owner that have seen the flag in that
//   window                     round                                    round
//   flag, 64 bits, there too   a lane of that warp, then: store         those warps: wait acquire, system
//                              release, system
//
//   state of a flag            seen by a reader in round n
//   of a round before          not here yet: loads again
//   of round n                 here, and all that it tells of
//   anything else              never ends a wait; reported as a stuck record with the flag as seen
//
// E1: what happens before tell_flags() happens before what follows await_flags(), as with arrival words. Other lanes'
//     data is among it: tell_flags() meets them first.
// E2: data and a flag may be written again in round m only by who has heard, by a released flag, that their reader has done
//     with the round that wrote them last: whoever uses flags says which one.
// Start:    all bytes 0; the first round is 1. Flags are those of lines (line.hpp): all rounds differ, in many bits.
// Progress: no wait precedes the release it depends on; a reader waits only for flags that it knows somebody stores.
//
// Nothing here is assumed that PTX does not promise.
#include "protocol/line.hpp"

namespace baton {

/// The warp: each lane whose flag is not null tells of what all lanes have done before. One fence of the warp for all of them.
template <exec_context X>
BATON_FN void tell_flags(X& x, const typename X::template lanes<std::uint64_t*>& flags, std::uint64_t epoch) {
  x.sync_warp();
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
