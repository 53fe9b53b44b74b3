#pragma once
// Litmus programs of the asynchronous half: mbarriers and shared memory. Copies: copy_litmus.hpp.
#include <utility>

#include "tests/check/litmus.hpp"

namespace baton::litmus {

/// Shared memory of a block: two mbarriers, then room for copies.
inline constexpr std::size_t async_shared_bytes = 128;
inline mbarrier* bar(context& x, int i = 0) {
  return reinterpret_cast<mbarrier*>(x.shared()) + i;
}
inline std::uint32_t* room(context& x) {
  return reinterpret_cast<std::uint32_t*>(x.shared() + 64);
}

enum class init_fault { none, no_fence, no_sync };

/// All warps call it: the first one of each block initialises.
inline void begin(context& x, int arrivals, init_fault fault = init_fault::none) {
  if (x.warp() == 0) {
    x.mbarrier_init(bar(x), arrivals);
    x.mbarrier_init(bar(x, 1), arrivals);
    if (fault != init_fault::no_fence) x.fence_mbarrier_init();
  }
  if (fault != init_fault::no_sync) x.sync_cluster();
}

template <scope Scope = scope::block>
bool await(context& x, mbarrier* b, parity p) {
  return x.mbarrier_wait<Scope>(b, p, wait_site{.where = "test"});
}

/// One body for all warps of block 0, told apart by x.warp().
inline test one_block(const char* name, int warps, std::function<void(program&, const cells&, context&)> body,
                      verdict expected) {
  return {name,
          [=](program& p, const cells& c) {
            p.shared_memory(async_shared_bytes);
            for (int w = 0; w < warps; ++w) p.spawn(0, 0, w, [=, &p](context& x) { body(p, c, x); });
          },
          expected};
}

/// 32 bytes of memory that a copy reads: c.data is the first of them in name only.
inline std::uint32_t* source(program& p) {
  auto* words = p.allocate<std::uint32_t>(8, "source");
  for (std::uint32_t i = 0; i < 8; ++i) words[i] = 40 + i;
  return words;
}

inline std::vector<test> phase_tests() {
  using enum verdict;
  return {
      one_block(
          "a phase carries what all its arrivals release", 3,
          [](program&, const cells& c, context& x) {
            begin(x, 2);
            if (x.warp() < 2) {
              x.write(x.warp() == 0 ? c.x : c.y, 1u);
              x.mbarrier_arrive(bar(x), 1);
            } else if (await(x, bar(x), parity::even)) {
              x.read(c.x);
              x.read(c.y);
            }
          },
          none),
      one_block(
          "a phase does not carry what was done after the arrival", 2,
          [](program&, const cells& c, context& x) {
            begin(x, 1);
            if (x.warp() == 0) {
              x.mbarrier_arrive(bar(x), 1);
              x.write(c.x, 1u);
            } else if (await(x, bar(x), parity::even)) {
              x.read(c.x);
            }
          },
          data_race),
      one_block(
          "a phase that lacks an arrival does not complete", 2,
          [](program&, const cells&, context& x) {
            begin(x, 2);
            if (x.warp() == 0)
              x.mbarrier_arrive(bar(x), 1);
            else
              await(x, bar(x), parity::even);
          },
          deadlock),
      one_block(
          "the phase before the first counts as complete", 1,
          [](program&, const cells&, context& x) {
            begin(x, 1);
            await(x, bar(x), parity::odd);
          },
          none),
      one_block(
          "more arrivals than expected", 1,
          [](program&, const cells&, context& x) {
            begin(x, 1);
            x.mbarrier_arrive(bar(x), 2);
          },
          mbarrier_misuse),
      one_block(
          "two warps that arrive for either of two phases", 2,
          [](program&, const cells&, context& x) {
            begin(x, 1);
            x.mbarrier_arrive(bar(x), 1);
          },
          mbarrier_misuse),
      one_block(
          "a waiter that is lapped misses its phase", 2,
          [](program&, const cells&, context& x) {
            begin(x, 1);
            if (x.warp() == 1) {
              await(x, bar(x), parity::even);
            } else {
              x.mbarrier_arrive(bar(x), 1);
              x.mbarrier_arrive(bar(x), 1);
            }
          },
          deadlock),
      one_block(
          "a waiter that two others lap together misses its phase", 3,
          [](program&, const cells& c, context& x) {
            begin(x, 1);
            if (x.warp() == 0) {
              await(x, bar(x), parity::even);
            } else if (x.warp() == 1) {
              x.mbarrier_arrive(bar(x), 1);
              x.store<release, blk>(c.x, 1u);
            } else if (wait_for<acquire, blk>(x, c.x, 1)) {
              x.mbarrier_arrive(bar(x), 1);
            }
          },
          deadlock),
      one_block(
          "a hand-over and back, three laps", 2,
          [](program& p, const cells& c, context& x) {
            begin(x, 1);
            for (std::uint32_t lap = 0; lap < 3; ++lap) {
              if (x.warp() == 0) {
                if (!await(x, bar(x, 1), !parity_of(lap))) return;
                x.write(c.data, lap);
                x.mbarrier_arrive(bar(x), 1);
              } else {
                if (!await(x, bar(x), parity_of(lap))) return;
                p.require(x.read(c.data) == lap, "the item of its lap");
                x.mbarrier_arrive(bar(x, 1), 1);
              }
            }
          },
          none),
      one_block(
          "an mbarrier used before its init is seen", 2,
          [](program&, const cells&, context& x) {
            begin(x, 1, init_fault::no_sync);
            if (x.warp() == 1) await(x, bar(x), parity::odd);
          },
          data_race),
  };
}

/// An atomic access of the source, then a store of the copy engine.
template <class Change>
test storing_atomics(const char* name, bool fenced, Change change, verdict expected) {
  return {name,
          [=](program& p, const cells&) {
            p.shared_memory(async_shared_bytes);
            std::uint32_t* to = source(p);
            p.spawn(0, 0, 0, [=](context& x) {
              for (int i = 0; i < 8; ++i) x.write(room(x) + i, 7u);
              x.fence_proxy_async();
              change(x);
              if (fenced) x.fence_proxy_async();
              x.bulk_store(to, room(x), 32);
              x.bulk_commit();
              x.bulk_wait_read();
            });
          },
          expected};
}

inline std::vector<test> shared_memory_tests() {
  using enum verdict;
  return {
      one_block(
          "shared memory is read before anybody wrote it", 1,
          [](program&, const cells&, context& x) { x.read(room(x)); }, garbage_read),
      one_block(
          "a counter in shared memory that nobody has set", 1,
          [](program&, const cells&, context& x) { x.fetch_add<relaxed, blk>(room(x), 1u); }, garbage_read),
      one_block(
          "a wait for a flag in shared memory that nobody has set", 1,
          [](program&, const cells&, context& x) { wait_for<acquire, blk>(x, room(x), 1); }, garbage_read),
      one_block(
          "an arrival at an mbarrier that nobody has set", 1,
          [](program&, const cells&, context& x) { x.mbarrier_arrive(bar(x), 1); }, garbage_read),
      one_block(
          "shared memory of the kernel before", 1,
          [](program&, const cells&, context& x) {
            x.write(room(x), 7u);
            x.next_kernel();
            x.read(room(x));
          },
          garbage_read),
      one_block(
          "an atomic word in the next kernel's shared memory", 1,
          [](program&, const cells&, context& x) {
            x.store<relaxed, blk>(room(x), 7u);
            x.next_kernel();
            x.load<relaxed, blk>(room(x));
          },
          garbage_read),
      one_block(
          "shared memory of another size in the next kernel", 1,
          [](program&, const cells&, context& x) {
            x.store<relaxed, blk>(room(x), 7u);
            x.next_kernel();
            auto* wide = reinterpret_cast<std::uint64_t*>(room(x));
            x.store<relaxed, blk>(wide, std::uint64_t{1});
            x.load<relaxed, blk>(wide);
          },
          none),
      one_block(
          "a write past the end of shared memory", 1,
          [](program&, const cells&, context& x) { x.write(room(x) + 16, 7u); }, outside_memory),
      {"a look into another block's shared memory",
       [](program& p, const cells&) {
         p.shared_memory(async_shared_bytes);
         auto* theirs = p.allocate<std::uint64_t>(1, "theirs");
         p.spawn(0, 0, 0, [=](context& x) {
           *theirs = reinterpret_cast<std::uintptr_t>(x.shared());
           x.write(room(x), 1u);
         });
         p.spawn(0, 1, 0, [=](context& x) { x.read(reinterpret_cast<std::uint32_t*>(*theirs)); });
       },
       outside_memory},
      storing_atomics(
          "an atomic store without a proxy fence is not stored", false,
          [](context& x) { x.store<release, blk>(room(x), 8u); }, data_race),
      storing_atomics(
          "nor an atomic add", false, [](context& x) { x.fetch_add<relaxed, blk>(room(x), 1u); }, data_race),
      storing_atomics(
          "a fenced atomic store is", true, [](context& x) { x.store<release, blk>(room(x), 8u); }, none),
  };
}

}  // namespace baton::litmus
