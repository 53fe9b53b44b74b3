#pragma once
// Litmus programs of the copy engine, of pairs of blocks and of kernels that begin early.
#include "tests/check/async_litmus.hpp"

namespace baton::litmus {

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

enum class store_fault { none, fence_before_write, no_fence, global_fence, fenced_by_issuer, source_reused };

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
              if (fault == store_fault::global_fence) x.fence_proxy_async_global();
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

/// Sevens in the block's room, and a copy of them to `to` asked for.
inline void copy_out(context& x, std::uint32_t* to) {
  for (int i = 0; i < 8; ++i) x.write(room(x) + i, 7u);
  x.fence_proxy_async();
  x.bulk_store(to, room(x), 32);
  x.bulk_commit();
}

/// A copy's store to memory that another rank reads when it is told.
inline test telling(const char* name, bool awaits_it_whole, verdict expected) {
  return {name,
          [=](program& p, const cells& c) {
            p.shared_memory(async_shared_bytes);
            std::uint32_t* to = source(p);
            p.spawn(0, 0, 0, [=](context& x) {
              copy_out(x, to);
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

enum class relay { fenced_by_teller, fenced_by_hearer, fenced_for_shared, not_fenced };

/// A copy's store, told of to another rank, whose copy engine loads it.
inline test relaying(const char* name, relay how, verdict expected) {
  return {name,
          [=](program& p, const cells& c) {
            p.shared_memory(async_shared_bytes);
            std::uint32_t* to = source(p);
            p.spawn(0, 0, 0, [=](context& x) {
              copy_out(x, to);
              x.bulk_wait();
              if (how == relay::fenced_by_teller) x.fence_proxy_async_global();
              x.store<release, sys>(c.x, 1u);
            });
            p.spawn(1, 0, 0, [=, &p](context& x) {
              begin(x, 1);
              if (!wait_for<acquire, sys>(x, c.x, 1)) return;
              if (how == relay::fenced_by_hearer) x.fence_proxy_async_global();
              if (how == relay::fenced_for_shared) x.fence_proxy_async();
              x.mbarrier_arrive_expect(bar(x), 32);
              x.bulk_load(room(x), to, 32, bar(x));
              if (await(x, bar(x), parity::even)) p.require(x.read(room(x) + 7) == 7, "the store went on");
            });
          },
          expected};
}

/// What nobody wrote is stored by the copy engine and read: by a warp, or by a copy whose result a warp reads.
inline test storing_garbage(const char* name, bool is_read, bool is_loaded, verdict expected) {
  return one_block(
      name, 1,
      [=](program& p, const cells&, context& x) {
        begin(x, 1);
        std::uint32_t* to = source(p);
        x.bulk_store(to, room(x), 16);
        x.bulk_commit();
        x.bulk_wait();
        if (is_loaded) {
          x.mbarrier_arrive_expect(bar(x), 16);
          x.bulk_load(room(x) + 4, to, 16, bar(x));
          if (!await(x, bar(x), parity::even)) return;
        }
        if (is_read) x.read(is_loaded ? room(x) + 4 : to);
      },
      expected);
}

/// Every lane writes its word of what one lane then asks to be stored, or reads its word of what one lane then asks to be filled.
inline test asking_for_all_lanes(const char* name, bool stores, bool syncs, verdict expected) {
  return one_block(
      name, 1,
      [=](program& p, const cells&, context& x) {
        begin(x, 1);
        std::uint32_t* far = source(p);
        const auto each_word = [&](auto f) {
          x.each_lane([&](int lane) {
            if (lane < 8) f(lane);
          });
        };
        each_word([&](int i) { x.write(room(x) + i, 7u); });
        if (!stores) x.sync_warp();
        if (!stores) each_word([&](int i) { x.read(room(x) + i); });
        x.each_lane([&](int) { x.fence_proxy_async(); });
        if (syncs) x.sync_warp();
        x.elect([&] {
          if (stores) return x.bulk_store(far, room(x), 32), x.bulk_commit();
          x.mbarrier_arrive_expect(bar(x), 32);
          x.bulk_load(room(x), far, 32, bar(x));
        });
        if (stores)
          x.bulk_wait_read();
        else
          await(x, bar(x), parity::even);
      },
      expected);
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

enum class hand_in { none, untold, told_in_its_own_block, leaves_early, reads_early };

/// The follower of a pair writes into the leader's shared memory, which reads it there; or reads what lies there.
inline test in_another_block(const char* name, hand_in fault, verdict expected) {
  return {name,
          [=](program& p, const cells&) {
            p.shared_memory(async_shared_bytes);
            p.clusters_of(2);
            for (int block = 0; block < 2; ++block) {
              p.spawn(0, block, 0, [=, &p](context& x) {
                const bool leaves_early = fault == hand_in::leaves_early || fault == hand_in::reads_early;
                if (block == 0) x.write(room(x) + 1, 6u);
                begin(x, 1);
                if (block == 1) {
                  std::uint32_t* there = x.in_block(room(x), 0);
                  if (fault == hand_in::reads_early)
                    p.require(x.read(there + 1) == 6, "the leader wrote it");
                  else
                    x.write(there, 7u);
                  if (fault == hand_in::none) x.mbarrier_arrive_at(bar(x), 0, 1);
                  if (fault == hand_in::told_in_its_own_block) x.mbarrier_arrive(bar(x), 1);
                } else if (fault == hand_in::none) {
                  if (!await<scope::cluster>(x, bar(x), parity::even)) return;
                  p.require(x.read(room(x)) == 7, "the follower's word");
                } else if (!leaves_early) {
                  x.read(room(x));
                }
                if (!leaves_early) x.sync_cluster();
              });
            }
          },
          expected};
}

enum class told { by_kernel_before, by_this_kernel, by_barrier };

/// A kernel that begins early: what one warp wrote, another reads when it has awaited the kernel before.
inline test beginning_early(const char* name, told how, verdict expected) {
  return {name,
          [=](program& p, const cells& c) {
            p.shared_memory(async_shared_bytes);
            p.kernels_begin_early();
            for (int warp = 0; warp < 2; ++warp) {
              p.spawn(0, 0, warp, [=, &p](context& x) {
                if (warp == 0) x.write(c.data, 1u);
                x.next_kernel_early();
                if (warp == 0) x.write(room(x), 2u);
                if (how == told::by_barrier) x.sync_block();
                x.await_dependencies();
                if (warp == 0) return;
                p.require(x.read(c.data) == 1, "the kernel before is over");
                if (how != told::by_kernel_before) p.require(x.read(room(x)) == 2, "the block met");
              });
            }
          },
          expected};
}

/// Kernels that begin early have two shared memories in turn: the third kernel reads where the first one wrote.
inline test reading_in_the_third_kernel(const char* name, bool writes_first, verdict expected) {
  return {name,
          [=](program& p, const cells&) {
            p.shared_memory(async_shared_bytes);
            p.kernels_begin_early();
            p.spawn(0, 0, 0, [=](context& x) {
              x.write(room(x), 1u);
              for (int kernel = 2; kernel <= 3; ++kernel) {
                x.next_kernel_early();
                x.await_dependencies();
              }
              if (writes_first) x.write(room(x), 3u);
              x.read(room(x));
            });
          },
          expected};
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
      storing("nor one after a fence for global memory", store_fault::global_fence, data_race),
      storing("nor one after the fence", store_fault::fence_before_write, data_race),
      storing("the issuer may fence for others", store_fault::fenced_by_issuer, none),
      storing("the source is written again before it has been read", store_fault::source_reused, data_race),
      telling("a store that has been awaited whole is told of", true, none),
      telling("a store of which only the source has been read is told of", false, data_race),
      telling_early("all but the newest store are told of", 0, none),
      telling_early("the newest store is told of with the others", 1, data_race),
      relaying("a store goes on by another engine if its own rank fences", relay::fenced_by_teller, none),
      relaying("or if the other rank does", relay::fenced_by_hearer, none),
      relaying("but not by a fence for shared memory", relay::fenced_for_shared, data_race),
      relaying("nor if nobody fences", relay::not_fenced, data_race),
      storing_garbage("garbage may be copied", false, true, none),
      storing_garbage("but not read where a copy stored it", true, false, garbage_read),
      storing_garbage("nor where the next copy took it", true, true, garbage_read),
      asking_for_all_lanes("one lane asks for a copy of what all have written", true, true, none),
      asking_for_all_lanes("but not before they met", true, false, data_race),
      asking_for_all_lanes("one lane asks for a copy over what all have read", false, true, none),
      asking_for_all_lanes("nor that before they met", false, false, data_race),
      reusing("the source of all but the newest group is written again", 0, none),
      reusing("the source of the newest group is written again", 1, data_race),
      beginning_early("what the kernel before wrote is there when it has been awaited",
                      told::by_kernel_before, none),
      beginning_early("not so what another warp wrote since", told::by_this_kernel, data_race),
      beginning_early("unless the block has met", told::by_barrier, none),
      reading_in_the_third_kernel("what the last kernel but one left is garbage", false, garbage_read),
      reading_in_the_third_kernel("and not what this one wrote there", true, none),
      pair<scope::cluster>("a pair of blocks hands over", true, none),
      pair<scope::block>("a wait at block scope does not hear another block", true, scope_race),
      pair<scope::cluster>("a block that may end before another arrives in it", false, loose_end),
      in_another_block("a word is written into another block", hand_in::none, none),
      in_another_block("and not there before it was told of", hand_in::untold, garbage_read),
      in_another_block("nor where the writer's block was told", hand_in::told_in_its_own_block, garbage_read),
      in_another_block("a block that may end before another writes into it", hand_in::leaves_early,
                       loose_end),
      in_another_block("a block that may end before another reads in it", hand_in::reads_early, loose_end),
  };
}

}  // namespace baton::litmus
