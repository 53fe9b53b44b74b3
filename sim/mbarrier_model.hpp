#pragma once
// What an mbarrier is, as pure transitions of one 64-bit word: the machine and the checker both run these.
//
//   bit   0         1..20      21..40     41..61             62..63
//         phase     expected   pending    bytes, signed      fault
//         parity    arrivals   arrivals   outstanding        sticky
//
//   event          becomes
//   arrive(n)      pending - n
//   expect(b)      bytes + b
//   complete(b)    bytes - b; may come before its expect, so bytes may be negative meanwhile
//   then, where pending == 0 and bytes == 0: the phase completes: parity flips, pending = expected
//
// A word of 0 (expected 0) was never initialised. What hardware leaves undefined becomes a sticky fault.
#include <cstdint>

#include "exec/mbarrier.hpp"

namespace baton::sim {

enum class mbarrier_fault : std::uint32_t {
  none,
  not_initialised,     // used before mbarrier_init was visible
  too_many_arrivals,   // more arrivals in a phase than it expects
  bytes_out_of_range,  // more than 2^20 - 1 bytes outstanding or ahead
};

constexpr const char* name(mbarrier_fault f) {
  switch (f) {
    case mbarrier_fault::not_initialised:
      return "the mbarrier is used before its init is visible";
    case mbarrier_fault::too_many_arrivals:
      return "more arrivals in a phase than the mbarrier expects";
    case mbarrier_fault::bytes_out_of_range:
      return "more bytes in a phase than an mbarrier counts";
    default:
      return "none";
  }
}

struct mbarrier_state {
  static constexpr std::int64_t most = (1 << 20) - 1;  // arrivals of a phase; bytes ahead or outstanding

  std::uint32_t phase = 0;  // parity of the phase that is not yet complete
  std::int64_t expected = 0;
  std::int64_t pending = 0;
  std::int64_t bytes = 0;
  mbarrier_fault fault = mbarrier_fault::none;

  static constexpr mbarrier_state of(std::uint64_t word) {
    constexpr std::uint64_t twenty = most;
    mbarrier_state s;
    s.phase = static_cast<std::uint32_t>(word & 1);
    s.expected = static_cast<std::int64_t>(word >> 1 & twenty);
    s.pending = static_cast<std::int64_t>(word >> 21 & twenty);
    s.bytes = static_cast<std::int64_t>(word >> 41 & (twenty << 1 | 1)) - (most + 1);
    s.fault = static_cast<mbarrier_fault>(word >> 62);
    if (s.expected == 0) s.bytes = 0;
    return s;
  }
  constexpr std::uint64_t word() const {
    return phase | static_cast<std::uint64_t>(expected) << 1 | static_cast<std::uint64_t>(pending) << 21 |
           static_cast<std::uint64_t>(bytes + most + 1) << 41 | static_cast<std::uint64_t>(fault) << 62;
  }

  /// Whether the phase of this parity has completed: what a wait asks.
  constexpr bool completed(parity p) const {
    return expected != 0 && fault == mbarrier_fault::none && phase != static_cast<std::uint32_t>(p);
  }

  friend constexpr bool operator==(const mbarrier_state&, const mbarrier_state&) = default;
};

namespace mbarrier_detail {
constexpr mbarrier_state failed(mbarrier_state s, mbarrier_fault f) {
  s.fault = f;
  return s;
}
constexpr mbarrier_state settled(mbarrier_state s) {
  if (s.pending != 0 || s.bytes != 0) return s;
  s.phase ^= 1u;
  s.pending = s.expected;
  return s;
}
constexpr bool unusable(const mbarrier_state& s) {
  return s.fault != mbarrier_fault::none || s.expected == 0;
}
constexpr mbarrier_state why_unusable(const mbarrier_state& s) {
  return s.fault != mbarrier_fault::none ? s : failed(s, mbarrier_fault::not_initialised);
}
constexpr mbarrier_state with_bytes(mbarrier_state s, std::int64_t more) {
  if (unusable(s)) return why_unusable(s);
  const std::int64_t now = s.bytes + more;
  if (now > mbarrier_state::most || now < -mbarrier_state::most)
    return failed(s, mbarrier_fault::bytes_out_of_range);
  s.bytes = now;
  return s;
}
}  // namespace mbarrier_detail

/// A fresh barrier. Arrivals outside [1, 2^20) leave it uninitialised, which its first use reports.
constexpr mbarrier_state initialised(std::int64_t arrivals) {
  if (arrivals < 1 || arrivals > mbarrier_state::most) return {};
  return {0, arrivals, arrivals, 0, mbarrier_fault::none};
}
constexpr mbarrier_state arrive(mbarrier_state s, std::int64_t n = 1) {
  if (mbarrier_detail::unusable(s)) return mbarrier_detail::why_unusable(s);
  if (n < 1 || n > s.pending) return mbarrier_detail::failed(s, mbarrier_fault::too_many_arrivals);
  s.pending -= n;
  return mbarrier_detail::settled(s);
}
/// Raises what the phase waits for; never completes it, since an arrival is still to come.
constexpr mbarrier_state expect(const mbarrier_state& s, std::int64_t bytes) {
  return mbarrier_detail::with_bytes(s, bytes);
}
constexpr mbarrier_state complete(const mbarrier_state& s, std::int64_t bytes) {
  const mbarrier_state now = mbarrier_detail::with_bytes(s, -bytes);
  return now.fault == mbarrier_fault::none ? mbarrier_detail::settled(now) : now;
}
/// One instruction on hardware: the bytes are expected before the arrival counts.
constexpr mbarrier_state arrive_expect(const mbarrier_state& s, std::int64_t bytes) {
  return arrive(expect(s, bytes));
}

}  // namespace baton::sim
