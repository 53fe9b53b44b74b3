#pragma once
// The litmus programs. Names follow the literature: SB store buffering, MP message passing, CoRR coherence of
// two reads, IRIW independent reads of independent writes, WRC write-to-read causality, LB load buffering.
#include "tests/check/litmus.hpp"

namespace baton::litmus {

inline std::string r1(const cells& c) {
  return registers(c, 1);
}
inline std::string r2(const cells& c) {
  return registers(c, 2);
}
inline std::string r3(const cells& c) {
  return registers(c, 3);
}
inline std::string r4(const cells& c) {
  return registers(c, 4);
}
inline std::string final_x(const cells& c) {
  return std::to_string(*c.x);
}
inline std::string final_xy(const cells& c) {
  return std::to_string(*c.x) + std::to_string(*c.y);
}

/// Writer: data, then flag x. Reader: waits for the flag, reads data.
template <order Store, order Wait, scope StoreScope, scope WaitScope>
test message_passing(const char* name, check::position reader, verdict expected) {
  return {name,
          [=](program& p, const cells& c) {
            p.spawn(0, 0, 0, [=](context& x) {
              x.write(c.data, 42u);
              x.store<Store, StoreScope>(c.x, 1u);
            });
            p.spawn(reader.rank, reader.block, reader.warp, [=, &p](context& x) {
              wait_for<Wait, WaitScope>(x, c.x, 1);
              p.require(x.read(c.data) == 42, "data has arrived");
            });
          },
          expected};
}

/// The same with fences around relaxed accesses of the flag; `scope::block` on one rank's two blocks is too
/// narrow.
template <bool WriterFence, bool ReaderFence, scope FenceScope>
test message_passing_by_fences(const char* name, check::position reader, verdict expected) {
  return {name,
          [=](program& p, const cells& c) {
            p.spawn(0, 0, 0, [=](context& x) {
              x.write(c.data, 42u);
              if constexpr (WriterFence) x.fence<acq_rel, FenceScope>();
              x.store<relaxed, sys>(c.x, 1u);
            });
            p.spawn(reader.rank, reader.block, reader.warp, [=](context& x) {
              wait_for<relaxed, sys>(x, c.x, 1);
              if constexpr (ReaderFence) x.fence<acq_rel, FenceScope>();
              x.read(c.data);
            });
          },
          expected};
}

/// Flag and data both atomic, both loaded once.
template <order Store, order Load>
test message_passing_by_loads(const char* name, std::set<std::string> outcomes) {
  return {name,
          [](program& p, const cells& c) {
            p.spawn(0, 0, 0, [=](context& x) {
              x.store<relaxed, sys>(c.y, 1u);
              x.store<Store, sys>(c.x, 1u);
            });
            p.spawn(1, 0, 0, [=](context& x) {
              c.r[0] = x.load<Load, sys>(c.x);
              c.r[1] = x.load<relaxed, sys>(c.y);
            });
          },
          verdict::none, std::move(outcomes), r2};
}

template <order Load>
test independent_reads(const char* name, std::set<std::string> outcomes) {
  return {name,
          [](program& p, const cells& c) {
            p.spawn(0, 0, 0, [=](context& x) { x.store<release, sys>(c.x, 1u); });
            p.spawn(1, 0, 0, [=](context& x) { x.store<release, sys>(c.y, 1u); });
            p.spawn(2, 0, 0, [=](context& x) {
              c.r[0] = x.load<Load, sys>(c.x);
              c.r[1] = x.load<Load, sys>(c.y);
            });
            p.spawn(3, 0, 0, [=](context& x) {
              c.r[2] = x.load<Load, sys>(c.y);
              c.r[3] = x.load<Load, sys>(c.x);
            });
          },
          verdict::none, std::move(outcomes), r4};
}

/// data and x by the first, x to y by the second, the third reads data after y.
template <order Middle>
test write_to_read_causality(const char* name, verdict expected) {
  return {name,
          [](program& p, const cells& c) {
            p.spawn(0, 0, 0, [=](context& x) {
              x.write(c.data, 1u);
              x.store<release, sys>(c.x, 1u);
            });
            p.spawn(1, 0, 0, [=](context& x) {
              wait_for<acquire, sys>(x, c.x, 1);
              x.store<Middle, sys>(c.y, 1u);
            });
            p.spawn(2, 0, 0, [=](context& x) {
              wait_for<acquire, sys>(x, c.y, 1);
              x.read(c.data);
            });
          },
          expected};
}

/// A release, then somebody else changes the word, then an acquire of the changed value.
template <bool ReadModifyWrite>
test release_sequence(const char* name, verdict expected) {
  return {name,
          [](program& p, const cells& c) {
            p.spawn(0, 0, 0, [=](context& x) {
              x.write(c.data, 1u);
              x.store<release, sys>(c.x, 1u);
            });
            p.spawn(1, 0, 0, [=](context& x) {
              wait_for<relaxed, sys>(x, c.x, 1);
              if constexpr (ReadModifyWrite)
                x.fetch_add<relaxed, sys>(c.x, 1u);
              else
                x.store<relaxed, sys>(c.x, 2u);
            });
            p.spawn(2, 0, 0, [=](context& x) {
              wait_for<acquire, sys>(x, c.x, 2);
              x.read(c.data);
            });
          },
          expected};
}

/// Two warps of one block hand a value over; with the barrier that is fine.
template <bool Barrier>
test hand_over_in_block(const char* name, verdict expected) {
  return {name,
          [](program& p, const cells& c) {
            p.spawn(0, 0, 0, [=](context& x) {
              x.write(c.data, 7u);
              if constexpr (Barrier) x.sync_block();
            });
            p.spawn(0, 0, 1, [=](context& x) {
              if constexpr (Barrier) x.sync_block();
              x.read(c.data);
            });
          },
          expected};
}

inline std::set<std::string> all_words(int digits, const std::set<std::string>& except = {}) {
  std::set<std::string> words;
  for (int bits = 0; bits < 1 << digits; ++bits) {
    std::string word;
    for (int i = digits - 1; i >= 0; --i) word += (bits >> i & 1) != 0 ? '1' : '0';
    if (!except.contains(word)) words.insert(word);
  }
  return words;
}

}  // namespace baton::litmus
