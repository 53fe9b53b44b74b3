#pragma once
// Parts of one thing that several blocks make: each signs for its own, and exactly one learns that all are there. The word that
// they sign lies in memory that outlives a kernel and that others might have written: what it cannot be is noticed.
//
//   cell      starts   the block of part i, of n              who completes it
//   signed    0        fetch_add acq_rel, device scope        stores 0 and goes on, alone
//
//   bits of the word   0 to 7: how many have signed    8 to 30: the sum of their i + 1    31: a blot
//
// P1: everything that a block did before its sign() happens before what the lane does that learned of all parts:
//     each add releases, and the chain of read-modify-writes carries every release to the last acquire.
// P2: a word that these parts cannot have made is refused before anybody is told of all parts by it: whoever would be the last by
//     the count, or comes behind him, compares all of it. Told they are only where it looks as some of these very parts leave it.
// Start:    0, and 0 again once all have signed. Who cannot make his part blots the word for good: nobody is told of all
//           parts then, whoever signs later, in this kernel or another.
// Progress: nobody waits.
// Checked:  checks/signed_parts.cpp has the bounds and the planted bugs.
#include <cstdint>

#include "base/macros.hpp"
#include "exec/exec.hpp"

namespace baton {

/// Parts, at most.
inline constexpr int most_signed_parts = 255;

enum class signing : std::uint8_t { some, all, impossible };

namespace signed_parts_detail {

inline constexpr std::uint32_t one = 1, count_mask = 0xff, blot = 1u << 31;
inline constexpr int sum_at = 8;

constexpr std::uint32_t signature_of(int part) {
  return one + (static_cast<std::uint32_t>(part + 1) << sum_at);
}
/// All of `count` parts.
constexpr std::uint32_t whole(int count) {
  const auto n = static_cast<std::uint32_t>(count);
  return n + (n * (n + 1) / 2 << sum_at);
}

}  // namespace signed_parts_detail

/// One lane: part `part` of `count` is there. What the word was is left in `seen`.
template <exec_context X>
BATON_FN signing sign(X& x, std::uint32_t* word, int part, int count, std::uint32_t& seen) {
  using namespace signed_parts_detail;
  seen = x.template fetch_add<order::acq_rel, scope::device>(word, signature_of(part));
  const int before = static_cast<int>(seen & count_mask);
  if (before + 1 < count) return signing::some;
  if (seen + signature_of(part) != whole(count)) return signing::impossible;
  x.template store<order::relaxed, scope::device>(word, 0u);
  return signing::all;
}

/// One lane: a part will not be there.
template <exec_context X>
BATON_FN void blot(X& x, std::uint32_t* word) {
  x.template fetch_or<order::relaxed, scope::device>(word, signed_parts_detail::blot);
}

}  // namespace baton
