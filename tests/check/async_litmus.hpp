#pragma once
// Litmus programs of the asynchronous half: mbarriers, the copy engine, clusters.
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

/// A copy of 32 bytes by warp 0; warp 1 waits, or not, and reads the last word.
inline test loading(const char* name, int expected_bytes, bool waits, init_fault fault, verdict expected) {
  return {name,
          [=](program& p, const cells&) {
            p.shared_memory(async_shared_bytes);
            const std::uint32_t* from = source(p);
            p.spawn(0, 0, 0, [=](context& x) {
              begin(x, 1, fault);
              x.mbarrier_arrive_expect(bar(x), expected_bytes);
              x.bulk_load(room(x), from, 32, bar(x));
            });
            p.spawn(0, 0, 1, [=, &p](context& x) {
              begin(x, 1, fault);
              if (waits && !await(x, bar(x), parity::even)) return;
              if (expected == verdict::loose_end) return;
              const std::uint32_t last = x.read(room(x) + 7);
              if (waits) p.require(last == 47, "the copy landed");
            });
          },
          expected};
}

enum class store_fault { none, fence_before_write, no_fence, fenced_by_issuer, source_reused };

/// Warp 0 writes, warp 1 stores with the copy engine, the next kernel reads.
inline test storing(const char* name, store_fault fault, verdict expected) {
  return {name,
          [=](program& p, const cells&) {
            p.shared_memory(async_shared_bytes);
            std::uint32_t* to = source(p);
            p.spawn(0, 0, 0, [=](context& x) {
              if (fault == store_fault::fence_before_write) x.fence_proxy_async();
              for (int i = 0; i < 8; ++i) x.write(room(x) + i, 7u);
              if (fault == store_fault::none || fault == store_fault::source_reused) x.fence_proxy_async();
              x.sync_block();
              x.sync_block();
              if (fault == store_fault::source_reused) x.write(room(x), 8u);
              x.next_kernel();
            });
            p.spawn(0, 0, 1, [=, &p](context& x) {
              x.sync_block();
              if (fault == store_fault::fenced_by_issuer) x.fence_proxy_async();
              x.bulk_store(to, room(x), 32);
              x.bulk_commit();
              if (fault == store_fault::source_reused) x.sync_block();
              x.bulk_wait_read();
              if (fault != store_fault::source_reused) x.sync_block();
              x.next_kernel();
              p.require(x.read(to + 7) == 7, "the store arrived");
            });
          },
          expected};
}

/// A copy's store to memory that another rank reads when it is told.
inline test telling(const char* name, bool awaits_it_whole, verdict expected) {
  return {name,
          [=](program& p, const cells& c) {
            p.shared_memory(async_shared_bytes);
            std::uint32_t* to = source(p);
            p.spawn(0, 0, 0, [=](context& x) {
              for (int i = 0; i < 8; ++i) x.write(room(x) + i, 7u);
              x.fence_proxy_async();
              x.bulk_store(to, room(x), 32);
              x.bulk_commit();
              x.bulk_wait_read();
              if (awaits_it_whole) x.bulk_wait();
              x.fence_proxy_async_global();
              x.store<release, sys>(c.x, 1u);
            });
            p.spawn(1, 0, 0, [=, &p](context& x) {
              if (wait_for<acquire, sys>(x, c.x, 1)) p.require(x.read(to + 7) == 7, "the store is here");
            });
          },
          expected};
}

/// Two groups of stores, of which another rank is told when all but the newest are done; it reads what the `read`-th stored.
inline test telling_early(const char* name, int read, verdict expected) {
  return {name,
          [=](program& p, const cells& c) {
            p.shared_memory(async_shared_bytes);
            std::uint32_t* to = source(p);
            p.spawn(0, 0, 0, [=](context& x) {
              for (int i = 0; i < 8; ++i) x.write(room(x) + i, 7u);
              x.fence_proxy_async();
              for (int i = 0; i < 2; ++i) {
                x.bulk_store(to + 4 * i, room(x) + 4 * i, 16);
                x.bulk_commit();
              }
              x.bulk_wait<1>();
              x.fence_proxy_async_global();
              x.store<release, sys>(c.x, 1u);
              x.bulk_wait();
            });
            p.spawn(1, 0, 0, [=, &p](context& x) {
              if (wait_for<acquire, sys>(x, c.x, 1))
                p.require(x.read(to + 4 * read) == 7, "the store is here");
            });
          },
          expected};
}

/// Two groups of stores, and a source that is written again when all but the newest group has been read.
inline test reusing(const char* name, int written_again, verdict expected) {
  return one_block(
      name, 1,
      [=](program& p, const cells&, context& x) {
        std::uint32_t* to = source(p);
        for (int i = 0; i < 8; ++i) x.write(room(x) + i, 7u);
        x.fence_proxy_async();
        for (int i = 0; i < 2; ++i) {
          x.bulk_store(to + 4 * i, room(x) + 4 * i, 16);
          x.bulk_commit();
        }
        x.bulk_wait_read<1>();
        x.write(room(x) + 4 * written_again, 8u);
        x.bulk_wait_read();
      },
      expected);
}

/// The follower of a pair arrives in the leader, which reads what it wrote.
template <scope WaitScope>
test pair(const char* name, bool synchronises, verdict expected) {
  return {name,
          [=](program& p, const cells& c) {
            p.shared_memory(async_shared_bytes);
            p.clusters_of(2);
            for (int block = 0; block < 2; ++block) {
              p.spawn(0, block, 0, [=](context& x) {
                begin(x, 1);
                if (block == 1) {
                  x.write(c.data, 1u);
                  x.mbarrier_arrive_at(bar(x), 0, 1);
                } else if (synchronises || expected != verdict::loose_end) {
                  if (!await<WaitScope>(x, bar(x), parity::even)) return;
                  x.read(c.data);
                }
                if (synchronises) x.sync_cluster();
              });
            }
          },
          expected};
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

inline std::vector<test> copy_tests() {
  using enum verdict;
  return {
      loading("a load is seen by who waits for its bytes", 32, true, init_fault::none, none),
      loading("a load is not seen without a wait", 32, false, init_fault::none, garbage_read),
      loading("a wait for half of the bytes does not see the other half", 16, true, init_fault::none,
              data_race),
      loading("a block that may end before its load has landed", 32, false, init_fault::none, loose_end),
      loading("the copy engine does not see an init without a fence", 32, true, init_fault::no_fence,
              data_race),
      storing("a fenced write is stored", store_fault::none, none),
      storing("a write without a proxy fence is not", store_fault::no_fence, data_race),
      storing("nor one after the fence", store_fault::fence_before_write, data_race),
      storing("the issuer may fence for others", store_fault::fenced_by_issuer, none),
      storing("the source is written again before it has been read", store_fault::source_reused, data_race),
      telling("a store that has been awaited whole is told of", true, none),
      telling("a store of which only the source has been read is told of", false, data_race),
      telling_early("all but the newest store are told of", 0, none),
      telling_early("the newest store is told of with the others", 1, data_race),
      reusing("the source of all but the newest group is written again", 0, none),
      reusing("the source of the newest group is written again", 1, data_race),
      pair<scope::cluster>("a pair of blocks hands over", true, none),
      pair<scope::block>("a wait at block scope does not hear another block", true, scope_race),
      pair<scope::cluster>("a block that may end before another arrives in it", false, loose_end),
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
