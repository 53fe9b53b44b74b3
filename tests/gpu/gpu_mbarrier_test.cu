// Mbarriers, the copy engine and clusters on a GPU: what each verb does and orders, and how a wait gives up.
#include <numeric>

#include "exec/site_name.hpp"
#include "tests/gpu/start.cuh"
#include "tests/gpu/waiting_case.hpp"

namespace baton {
namespace {

using test::both_sides;

struct mbarrier_params {
  std::uint32_t* in = nullptr;
  std::uint32_t* out = nullptr;
  int n = 0;
};

class gpu_mbarrier : public test::waiting_case {
 protected:
  gpu_mbarrier() : waiting_case{2'000'000'000} {}

  template <class Kernel>
  void run(const mbarrier_params& p, int blocks, int warps, std::size_t shared_bytes = 16384) {
    test::start<Kernel>({blocks, warps * warp_lanes, shared_bytes}, p, {3, limits_});
    test::finish();
  }
  void expect_nobody_stuck() const { EXPECT_EQ(record_->claimed, 0u) << name(record_->where); }
};

constexpr wait_site at_test() {
  return {.where = "test"};
}

template <class X>
BATON_FN mbarrier* barriers(X& x) {
  return reinterpret_cast<mbarrier*>(x.shared());
}

/// Warp 0 of the block initialises `count` barriers.
template <class X>
BATON_FN void init(X& x, int count, int arrivals) {
  if (x.warp() == 0) {
    x.elect([&] {
      for (int i = 0; i < count; ++i) x.mbarrier_init(barriers(x) + i, arrivals);
      x.fence_mbarrier_init();
    });
  }
  x.sync_block();
}

/// What a wait of either parity says before and after the first phase completes; odd counts as complete first.
struct watch_parity {
  template <async_exec_context X>
  static BATON_FN void run(X& x, const mbarrier_params& p) {
    init(x, 1, 3);
    const bool odd_before = x.template mbarrier_wait<scope::block>(barriers(x), parity::odd, at_test());
    x.elect([&] {
      x.mbarrier_arrive(barriers(x), 2);
      x.mbarrier_arrive(barriers(x), 1);
    });
    const bool even_after = x.template mbarrier_wait<scope::block>(barriers(x), parity::even, at_test());
    x.elect([&] { x.mbarrier_arrive(barriers(x), 3); });
    const bool odd_after = x.template mbarrier_wait<scope::block>(barriers(x), parity::odd, at_test());
    x.each_lane([&](int lane) { x.write(p.out + lane, odd_before && even_after && odd_after ? 1u : 0u); });
  }
};

TEST_F(gpu_mbarrier, phases_alternate_and_the_one_before_the_first_is_odd) {
  both_sides<std::uint32_t> out{32};
  run<watch_parity>({.out = out.data()}, 1, 1);
  for (std::size_t lane = 0; lane < 32; ++lane) EXPECT_EQ(out[lane], 1u) << lane;
  expect_nobody_stuck();
}

/// Warp 0 writes a word a lane and arrives, n rounds; all others check and hand it back.
struct hand_off {
  template <async_exec_context X>
  static BATON_FN void run(X& x, const mbarrier_params& p) {
    mbarrier* full = barriers(x);
    mbarrier* empty = full + 1;
    auto* slot = reinterpret_cast<std::uint32_t*>(x.shared() + 64);
    if (x.warp() == 0) {
      x.elect([&] {
        x.mbarrier_init(full, 1);
        x.mbarrier_init(empty, x.num_warps() - 1);
        x.fence_mbarrier_init();
      });
    }
    x.sync_block();
    std::uint32_t stale = 0;
    for (std::uint32_t k = 0; k < static_cast<std::uint32_t>(p.n); ++k) {
      if (x.warp() == 0) {
        if (!x.template mbarrier_wait<scope::block>(empty, !parity_of(k), at_test())) return;
        x.each_lane([&](int lane) { x.write(slot + lane, 100 * k + static_cast<std::uint32_t>(lane)); });
        x.sync_warp();
        x.elect([&] { x.mbarrier_arrive(full, 1); });
      } else {
        if (!x.template mbarrier_wait<scope::block>(full, parity_of(k), at_test())) return;
        x.each_lane([&](int lane) {
          const std::uint32_t other = static_cast<std::uint32_t>(lane + 11) % 32;
          if (x.read(slot + other) != 100 * k + other) ++stale;
        });
        x.sync_warp();
        x.elect([&] { x.mbarrier_arrive(empty, 1); });
      }
    }
    x.each_lane([&](int) { x.template fetch_add<order::relaxed, scope::device>(p.out, stale); });
    x.elect([&] { x.template fetch_add<order::relaxed, scope::device>(p.out + 1, 1u); });
  }
};

TEST_F(gpu_mbarrier, what_was_written_before_an_arrival_is_read_after_the_wait) {
  constexpr int blocks = 4, warps = 5;
  both_sides<std::uint32_t> out{2};
  run<hand_off>({.out = out.data(), .n = 3000}, blocks, warps);
  EXPECT_EQ(out[0], 0u) << "stale words";
  EXPECT_EQ(out[1], static_cast<std::uint32_t>(blocks * warps)) << "warps that finished";
  expect_nobody_stuck();
}

/// Tiles of 256 words: loaded by the engine, doubled by the warp, stored by the engine. Two slots each way.
struct double_tiles {
  static constexpr int words = 256, bytes = 4 * words;
  template <async_exec_context X>
  static BATON_FN void run(X& x, const mbarrier_params& p) {
    mbarrier* full = barriers(x);
    auto* in = reinterpret_cast<std::uint32_t*>(x.shared() + 1024);
    auto* out = reinterpret_cast<std::uint32_t*>(x.shared() + 1024 + 2 * bytes);
    init(x, 2, 1);
    x.elect([&] { load(x, p, 0, full, in); });
    for (int t = 0; t < p.n; ++t) {
      x.sync_warp();
      if (t + 1 < p.n) x.elect([&] { load(x, p, t + 1, full, in); });
      const parity phase = parity_of(static_cast<std::uint32_t>(t / 2));
      if (!x.template mbarrier_wait<scope::block>(full + t % 2, phase, at_test())) return;
      if (t >= 1) x.bulk_wait_read();
      const std::uint32_t* from = in + t % 2 * words;
      std::uint32_t* to = out + t % 2 * words;
      x.each(words, [&](int i) { x.write(to + i, 2 * x.read(from + i)); });
      x.each_lane([&](int) { x.fence_proxy_async(); });
      x.sync_warp();
      x.elect([&] {
        x.bulk_store(p.out + t * words, to, bytes);
        x.bulk_commit();
      });
    }
    x.bulk_wait_read();
  }

 private:
  template <class X>
  static BATON_FN void load(X& x, const mbarrier_params& p, int t, mbarrier* full, std::uint32_t* in) {
    x.mbarrier_arrive_expect(full + t % 2, bytes);
    x.bulk_load(in + t % 2 * words, p.in + t * words, bytes, full + t % 2);
  }
};

TEST_F(gpu_mbarrier, bulk_copies_land_before_their_phase_completes_and_leave_after_the_proxy_fence) {
  constexpr int tiles = 50;
  std::vector<std::uint32_t> values(tiles * double_tiles::words);
  std::iota(values.begin(), values.end(), 1u);
  both_sides<std::uint32_t> in{values}, out{values.size()};
  run<double_tiles>({.in = in.data(), .out = out.data(), .n = tiles}, 1, 1);
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(out[i], 2 * values[i]) << i;
  expect_nobody_stuck();
}

/// One arrival for two loads whose bytes it expects together.
struct two_loads_one_phase {
  template <async_exec_context X>
  static BATON_FN void run(X& x, const mbarrier_params& p) {
    init(x, 1, 1);
    auto* slot = reinterpret_cast<std::uint32_t*>(x.shared() + 128);
    x.elect([&] {
      x.mbarrier_arrive_expect(barriers(x), 16 + 8000);
      x.bulk_load(slot, p.in, 16, barriers(x));
      x.bulk_load(slot + 4, p.in + 4, 8000, barriers(x));
    });
    if (!x.template mbarrier_wait<scope::block>(barriers(x), parity::even, at_test())) return;
    x.each(2004, [&](int i) { x.write(p.out + i, x.read(slot + i)); });
  }
};

TEST_F(gpu_mbarrier, a_phase_waits_for_all_bytes_it_expects) {
  std::vector<std::uint32_t> values(2004);
  std::iota(values.begin(), values.end(), 7u);
  both_sides<std::uint32_t> in{values}, out{values.size()};
  run<two_loads_one_phase>({.in = in.data(), .out = out.data()}, 1, 1);
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(out[i], values[i]) << i;
}

/// The second block of each pair writes global words and arrives at the first one's barrier, and back, n times.
struct across_the_pair {
  static constexpr kernel_bounds bounds{.cluster = 2};

  template <async_exec_context X>
  static BATON_FN void run(X& x, const mbarrier_params& p) {
    init(x, 2, 1);
    x.sync_cluster();
    mbarrier* there = barriers(x);
    mbarrier* back = barriers(x) + 1;
    std::uint32_t* words = p.in + x.block() / 2 * 32;
    std::uint32_t stale = 0;
    bool ok = true;
    for (std::uint32_t k = 0; ok && k < static_cast<std::uint32_t>(p.n); ++k) {
      if (x.cluster_block() == 1) {
        if (k > 0) ok = x.template mbarrier_wait<scope::cluster>(back, parity_of(k - 1), at_test());
        x.each_lane([&](int lane) { x.write(words + lane, k); });
        x.sync_warp();
        x.elect([&] { x.mbarrier_arrive_at(there, 0, 1); });
      } else {
        ok = x.template mbarrier_wait<scope::cluster>(there, parity_of(k), at_test());
        x.each_lane([&](int lane) {
          if (x.read(words + (lane + 5) % 32) != k) ++stale;
        });
        x.sync_warp();
        x.elect([&] { x.mbarrier_arrive_at(back, 1, 1); });
      }
    }
    x.sync_cluster();
    x.each_lane([&](int) { x.template fetch_add<order::relaxed, scope::device>(p.out, stale); });
    if (ok) x.elect([&] { x.template fetch_add<order::relaxed, scope::device>(p.out + 1, 1u); });
    x.elect([&] {
      x.write(p.out + 2 + x.block(), static_cast<std::uint32_t>(10 * x.cluster_blocks() + x.cluster_block()));
    });
  }
};

TEST_F(gpu_mbarrier, blocks_of_a_pair_hand_over_through_each_others_barriers) {
  both_sides<std::uint32_t> words{64}, out{6};
  run<across_the_pair>({.in = words.data(), .out = out.data(), .n = 1000}, 4, 1);
  EXPECT_EQ(out[0], 0u) << "stale words";
  EXPECT_EQ(out[1], 4u) << "blocks that finished";
  for (std::size_t b = 0; b < 4; ++b) EXPECT_EQ(out[2 + b], 20 + b % 2);
  expect_nobody_stuck();
}

/// The first block of each pair comes late, and notes when; the second when it could go on.
struct meets_a_late_block {
  static constexpr kernel_bounds bounds{.cluster = 2};

  template <async_exec_context X>
  static BATON_FN void run(X& x, const mbarrier_params& p) {
    if (x.cluster_block() == 0) {
      for (int i = 0; i < p.n; ++i) x.template fence<order::acq_rel, scope::system>();
      x.elect([&] { x.template store<order::relaxed, scope::device>(p.out + x.block(), 1u); });
      x.template fence<order::acq_rel, scope::device>();
    }
    x.meet_cluster();
    if (x.cluster_block() == 0) return;
    x.template fence<order::acq_rel, scope::device>();
    const std::uint32_t there = x.template load<order::relaxed, scope::device>(p.out + x.block() - 1);
    x.elect([&] { x.template store<order::relaxed, scope::device>(p.out + x.block(), 2 + there); });
  }
};

TEST_F(gpu_mbarrier, who_meets_a_cluster_waits_for_all_of_it) {
  both_sides<std::uint32_t> out{64};
  run<meets_a_late_block>({.out = out.data(), .n = 100}, 64, 1);
  for (std::size_t b = 0; b < 64; ++b) EXPECT_EQ(out[b], b % 2 == 0 ? 1u : 3u) << "block " << b;
}

/// One arrival of two, at the third barrier of the block.
struct lose_an_arrival {
  template <async_exec_context X>
  static BATON_FN void run(X& x, const mbarrier_params& p) {
    init(x, 4, 2);
    x.elect([&] { x.mbarrier_arrive(barriers(x) + 2, 1); });
    const bool ended = x.template mbarrier_wait<scope::block>(barriers(x) + 2, parity::even,
                                                              wait_site{.where = "test", .epoch = 8});
    x.each_lane([&](int lane) { x.write(p.out + lane, ended ? 1u : 2u); });
  }
};

TEST_F(gpu_mbarrier, a_phase_that_never_completes_is_on_record_with_parity_and_barrier) {
  limits_.deadline_ns = 20'000'000;
  both_sides<std::uint32_t> out{32};
  run<lose_an_arrival>({.out = out.data()}, 1, 1);
  for (std::size_t lane = 0; lane < 32; ++lane) EXPECT_EQ(out[lane], 2u) << lane;
  EXPECT_EQ(record_->complete, 1u);
  EXPECT_EQ(record_->rank, 3);
  EXPECT_EQ(record_->where, site{"test"});
  EXPECT_EQ(record_->epoch, 8u);
  EXPECT_EQ(record_->expected, static_cast<std::uint64_t>(parity::even));
  EXPECT_EQ(record_->seen, 16u) << "the barrier's offset in shared memory";
  EXPECT_GE(record_->waited_ns, limits_.deadline_ns);
  EXPECT_LT(record_->waited_ns, limits_.deadline_ns + 1'000'000'000);
  EXPECT_EQ(abort_word(), 1u);
}

TEST_F(gpu_mbarrier, a_set_abort_word_ends_a_wait_without_a_deadline) {
  limits_.deadline_ns = 0;
  set_abort(1);
  both_sides<std::uint32_t> out{32};
  run<lose_an_arrival>({.out = out.data()}, 1, 1);
  EXPECT_EQ(out[0], 2u);
  expect_nobody_stuck();
}

}  // namespace
}  // namespace baton
