#pragma once
// Lines: data that brings its own news of arrival. A writer stores 128 bytes at once, the last eight of which say the round;
// a reader loads the line until they do. One store and one load, no fence: the data is the signal.
//
//   cell                       written by                      read by
//   line, 128 bytes, in        one warp of the sender, at      warps of the owner, in that round, with wait_lines
//   the owner's window         most once a round
//
//   bytes     holds
//   0-111     data
//   112-119   data, or what belongs to the message as a whole
//   120-127   flag of the round
//
//   state of a line          seen by a reader in round n
//   flag of a round before   not here yet: loads again
//   flag of round n          here, and whole
//   anything else            never ends a wait; reported as a stuck record with the flag as seen
//
// L1: data stored with a line happens before what its reader does with the same line. Nothing else is ordered by it.
// L2: a line may be overwritten in round m only if its reader has read it, or will never, in the round that wrote it last:
//     whoever uses lines says why. A warp's loads have returned when it acts on what they brought.
// Start:    all bytes 0; the first round is 1.
// Progress: no wait precedes the store it depends on; a reader waits only for lines that it knows somebody sends.
// Flags are a product with an odd number: all rounds differ, in many bits, so that a flipped bit makes no other round's.
// Rounds are counted in 64 bits and never start again.
//
// That a line is seen whole is an assumption about NVLink and the L2 of one GPU, which NCCL's LL128 makes too, not a
// promise of the PTX memory model. kernels/torn_lines tries it before the first communicator that needs it.
#include <cstdint>

#include "exec/line.hpp"

namespace baton {

/// The flag of a round's lines.
constexpr std::uint64_t line_flag(std::uint64_t epoch) {
  return epoch * 0x9e3779b97f4a7c15u;
}

/// The lanes that hold flags: the last of each line.
constexpr bool holds_flag(int lane) {
  return lane % lanes_of_line == lanes_of_line - 1;
}

/// Sixteen bytes with a flag behind the first eight.
BATON_FN vec16 with_flag(std::uint32_t first, std::uint32_t second, std::uint64_t flag) {
  return {{first, second, static_cast<std::uint32_t>(flag), static_cast<std::uint32_t>(flag >> 32)}};
}

/// Whether this lane sees nothing against its line having arrived.
BATON_FN bool carries(int lane, const vec16& v, std::uint64_t flag) {
  const std::uint32_t low = static_cast<std::uint32_t>(flag), high = static_cast<std::uint32_t>(flag >> 32);
  return !holds_flag(lane) | (((v.word[2] ^ low) | (v.word[3] ^ high)) == 0);  // no branches
}

/// The warp: whether all 4 n lines have arrived.
template <int n, line_exec_context X>
BATON_FN bool all_carry(X& x, const typename X::template lanes<vec16> (&v)[n], std::uint64_t flag) {
  typename X::template lanes<bool> here;
  x.each_lane([&](int lane) {
    here[lane] = true;
    BATON_UNROLL
    for (int i = 0; i < n; ++i) here[lane] = here[lane] & carries(lane, v[i][lane], flag);
  });
  return x.ballot(here) == 0xffffffffu;
}

/// The warp: the 4 n lines at `from`, once they are here. False: gave up.
template <int n, line_exec_context X>
BATON_FN bool await_lines(X& x, const line_places<n>& from, std::uint64_t epoch, wait_site where,
                          typename X::template lanes<vec16> (&v)[n]) {
  const std::uint64_t flag = line_flag(epoch);
  where.epoch = static_cast<std::uint32_t>(epoch);
  where.expected = flag;
  const auto arrived = [=](int lane, const vec16(&values)[n]) {
    bool all = true;
    BATON_UNROLL
    for (int i = 0; i < n; ++i) all = all & carries(lane, values[i], flag);
    return all;
  };
  return x.wait_lines(from, arrived, where, v);
}

}  // namespace baton
