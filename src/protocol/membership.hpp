#pragma once
// Who takes part from now on: the members of a new membership meet, twice, and between the meetings each puts its own cells back
// to where they start. Who is not among them is not asked: it may be dead, late, or at an older membership.
//
//   cell                            written by                                read by
//   word [step][source], 64 bits,   rank `source`, once for each membership   a warp of the owner: wait acquire, system
//   in every rank's window          and step: store release, system
//
//   bits 63 to 9 of a word: the membership's epoch; bit 8: makes its ones even in number; bit r: rank r is a member
//
//   state of a word                        seen by a member of the membership of epoch n
//   of an epoch below n                    not here yet: loads again
//   of epoch n, the same members           here
//   of epoch n, others; of a later epoch   ends the wait, too: they do not agree, and none of both goes on
//   with ones that are odd in number       damaged: ends the wait or not, and none of both goes on by it
//
// E1: what a member did before step 0 happens before what any member does after it: its kernels of older rounds have ended, so
//     that what they stored into a member's cells lies there before their owner clears it.
// E2: what a member did before step 1 happens before what any member does after it: its cells are as at the start when others
//     send.
// W2: a word is written again for a greater epoch: whoever waits for less still sees enough.
// Start:    all bytes 0. Epoch 0 is the membership of creation, of which nobody tells.
// Progress: a member tells all before it waits.
#include <bit>

#include "exec/exec.hpp"

namespace baton {

inline constexpr int most_members = 8, meeting_steps = 2;

/// A step of a meeting, as one rank sees it.
struct meeting {
  std::uint64_t* words[most_members];  // of each member: [meeting_steps, most_members]
  std::uint64_t told;                  // member_word
  std::int32_t rank, step;
};

inline constexpr int epoch_bits_from = most_members + 1;

constexpr bool is_told(std::uint64_t word) {
  return std::popcount(word) % 2 == 0;
}
constexpr std::uint64_t member_word(std::uint64_t epoch, std::uint32_t members) {
  const std::uint64_t word = epoch << epoch_bits_from | members;
  return word | static_cast<std::uint64_t>(is_told(word) ? 0 : 1) << most_members;
}
constexpr std::uint64_t epoch_of_word(std::uint64_t word) {
  return word >> epoch_bits_from;
}

struct member_sites {
  static consteval site left() { return "members.left"; }
  static consteval site ready() { return "members.ready"; }
};

/// One warp: tells all members, and waits until all have told. `seen`: what they told, one a lane. False: gave up.
template <exec_context X>
BATON_FN bool meet(X& x, const meeting& m, typename X::template lanes<std::uint64_t>& seen) {
  typename X::template lanes<std::uint64_t*> from;
  x.each_lane([&](int r) {
    const bool is_member = r < most_members && (m.told >> r & 1) != 0;
    from[r] = is_member ? m.words[m.rank] + m.step * most_members + r : nullptr;
    if (is_member)
      x.template store<order::release, scope::system>(m.words[r] + m.step * most_members + m.rank, m.told);
  });
  const std::uint64_t epoch = epoch_of_word(m.told);
  return x.template wait<order::acquire, scope::system>(
      from, [=](int, std::uint64_t word) { return epoch_of_word(word) >= epoch; },
      {.where = m.step == 0 ? member_sites::left() : member_sites::ready(),
       .peer = 0,
       .epoch = static_cast<std::uint32_t>(epoch),
       .expected = m.told,
       .peer_modulus = most_members},
      seen);
}

}  // namespace baton
