// Each verb of the GPU context against what exec/exec.hpp says it does.
#include <set>

#include "tests/gpu/gpu_case.hpp"
#include "tests/gpu/start.cuh"

namespace baton {
namespace {

using test::both_sides;

struct context_params {
  std::uint64_t* u64 = nullptr;
  std::uint32_t* u32 = nullptr;
  std::byte* bytes = nullptr;
  int n = 0;
};

class gpu_context : public test::gpu_case {
 protected:
  template <class Kernel>
  static void run(const context_params& p, int blocks, int warps, std::size_t shared_bytes = 0) {
    test::start<Kernel>({blocks, warps * warp_lanes, shared_bytes}, p, {5, {}});
    test::finish();
  }
};

struct report_geometry {
  template <exec_context X>
  static BATON_FN void run(X& x, const context_params& p) {
    std::uint32_t* out = p.u32 + 5 * (x.block() * x.num_warps() + x.warp());
    x.elect([&] {
      x.write(out, static_cast<std::uint32_t>(x.rank()));
      x.write(out + 1, static_cast<std::uint32_t>(x.block()));
      x.write(out + 2, static_cast<std::uint32_t>(x.num_blocks()));
      x.write(out + 3, static_cast<std::uint32_t>(x.warp()));
      x.write(out + 4, static_cast<std::uint32_t>(x.num_warps()));
    });
  }
};

TEST_F(gpu_context, every_warp_knows_where_it_is) {
  constexpr std::uint32_t blocks = 3, warps = 4;
  both_sides<std::uint32_t> out{5 * blocks * warps};
  run<report_geometry>({.u32 = out.data()}, blocks, warps);
  for (std::uint32_t i = 0; i < blocks * warps; ++i) {
    const std::vector<std::uint32_t> got(out.data() + 5 * i, out.data() + 5 * i + 5);
    EXPECT_EQ(got, (std::vector<std::uint32_t>{5, i / warps, blocks, i % warps, warps}));
  }
}

/// Regions of n + 1 counters: each, block_each, each_lane (by lane), elect, the value of from_one.
struct count_visits {
  template <exec_context X>
  static BATON_FN void run(X& x, const context_params& p) {
    const auto visit = [&](int region, int i) {
      x.template fetch_add<order::relaxed, scope::device>(p.u32 + region * (p.n + 1) + i, 1u);
    };
    x.each(p.n, [&](int i) { visit(0, i); });
    x.block_each(p.n, [&](int i) { visit(1, i); });
    x.each_lane([&](int lane) { visit(2, lane); });
    x.elect([&] { visit(3, 0); });
    const vec16 one = x.from_one([&] {
      visit(3, 1);
      return vec16{{1, 2, 3, 4}};
    });
    const std::uint8_t narrow = x.from_one([] { return std::uint8_t{7}; });
    x.each_lane([&](int lane) {
      if (one.word[0] == 1 && one.word[1] == 2 && one.word[2] == 3 && one.word[3] == 4 && narrow == 7)
        visit(4, lane);
    });
  }
};

TEST_F(gpu_context, each_index_is_visited_once_a_warp_or_once_a_block) {
  constexpr int n = 101;
  constexpr std::uint32_t blocks = 2, warps = 3;
  both_sides<std::uint32_t> out{5 * (n + 1)};
  run<count_visits>({.u32 = out.data(), .n = n}, blocks, warps);
  const auto at = [&](int region, int i) { return out[static_cast<std::size_t>(region * (n + 1) + i)]; };
  for (int i = 0; i < n; ++i) {
    EXPECT_EQ(at(0, i), blocks * warps) << i;
    EXPECT_EQ(at(1, i), blocks) << i;
  }
  for (int lane = 0; lane < warp_lanes; ++lane) {
    EXPECT_EQ(at(2, lane), blocks * warps) << lane;
    EXPECT_EQ(at(4, lane), blocks * warps) << lane;
  }
  EXPECT_EQ(at(3, 0), blocks * warps);
  EXPECT_EQ(at(3, 1), blocks * warps);
  EXPECT_EQ(at(0, n), 0u);
}

struct exchange_lanes {
  template <exec_context X>
  static BATON_FN void run(X& x, const context_params& p) {
    typename X::template lanes<std::uint64_t> wide{};
    typename X::template lanes<std::uint16_t> narrow{};
    typename X::template lanes<bool> odd{};
    x.each_lane([&](int lane) {
      wide[lane] = (std::uint64_t{1} << 40) + static_cast<std::uint64_t>(lane);
      narrow[lane] = static_cast<std::uint16_t>(1000 + lane);
      odd[lane] = lane % 2 == 1;
    });
    const auto across = x.shuffle_xor(wide, 5);
    const auto up = x.shuffle_up(narrow, 3);
    const std::uint64_t from_9 = x.broadcast(wide, 9);
    const std::uint32_t votes = x.ballot(odd);
    x.each_lane([&](int lane) {
      x.write(p.u64 + lane, across[lane]);
      x.write(p.u64 + 32 + lane, std::uint64_t{up[lane]});
      x.write(p.u64 + 64 + lane, from_9);
      x.write(p.u64 + 96 + lane, std::uint64_t{votes});
    });
  }
};

TEST_F(gpu_context, lanes_trade_values_as_the_verbs_say) {
  both_sides<std::uint64_t> out{128};
  run<exchange_lanes>({.u64 = out.data()}, 1, 1);
  for (std::uint64_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(out[lane], (1ull << 40) + (lane ^ 5)) << lane;
    EXPECT_EQ(out[32 + lane], 1000 + (lane < 3 ? lane : lane - 3)) << lane;
    EXPECT_EQ(out[64 + lane], (1ull << 40) + 9) << lane;
    EXPECT_EQ(out[96 + lane], 0xaaaaaaaaull) << lane;
  }
}

struct triple {
  std::uint32_t a, b, c;
};
struct bare_quad {
  std::int32_t a, b, c, d;
};

/// Copies the first 64 bytes to the next 64 in pieces of every kind, through shared memory.
struct copy_all_sizes {
  template <exec_context X>
  static BATON_FN void run(X& x, const context_params& p) {
    copy<std::uint8_t>(x, p, 0);
    copy<std::uint16_t>(x, p, 2);
    copy<std::uint32_t>(x, p, 4);
    copy<std::uint64_t>(x, p, 8);
    copy<vec16>(x, p, 16);
    copy<triple>(x, p, 32);
    copy<bare_quad>(x, p, 44);
  }

 private:
  template <class T, class X>
  static BATON_FN void copy(X& x, const context_params& p, int offset) {
    x.elect([&] {
      auto* middle = reinterpret_cast<T*>(x.shared() + offset);
      x.write(middle, x.read(reinterpret_cast<const T*>(p.bytes + offset)));
      x.write(reinterpret_cast<T*>(p.bytes + 64 + offset), x.read(middle));
    });
  }
};

TEST_F(gpu_context, plain_access_moves_every_size_and_nothing_else) {
  both_sides<std::byte> bytes{128};
  for (int i = 0; i < 64; ++i) bytes[static_cast<std::size_t>(i)] = static_cast<std::byte>(i + 1);
  run<copy_all_sizes>({.bytes = bytes.data()}, 1, 1, 64);
  for (int i = 0; i < 64; ++i) {
    const bool copied = i == 0 || (i >= 2 && i < 60);
    EXPECT_EQ(static_cast<int>(bytes[static_cast<std::size_t>(64 + i)]), copied ? i + 1 : 0) << i;
  }
}

/// Every thread works on one cell of each kind.
struct contend {
  template <exec_context X>
  static BATON_FN void run(X& x, const context_params& p) {
    x.block_each(1, [&](int) { x.write(reinterpret_cast<std::uint32_t*>(x.shared()), 0u); });
    x.sync_block();
    x.each_lane([&](int lane) {
      const int thread = (x.block() * x.num_warps() + x.warp()) * warp_lanes + lane;
      add<scope::block>(x, reinterpret_cast<std::uint32_t*>(x.shared()));
      add<scope::device>(x, p.u32);
      add<scope::system>(x, p.u32 + 1);
      x.template fetch_add<order::acq_rel, scope::device>(reinterpret_cast<std::int32_t*>(p.u32 + 2), -2);
      x.template fetch_min<order::relaxed, scope::device>(p.u64, static_cast<std::uint64_t>(1000 - thread));
      x.template fetch_add<order::release, scope::system>(p.u64 + 1, std::uint64_t{1} << 33);
      const auto mine = static_cast<std::uint64_t>(thread + 1);
      x.write(p.u64 + 3 + thread, x.template exchange<order::acq_rel, scope::device>(p.u64 + 2, mine));
    });
    x.sync_block();
    x.elect([&] {
      if (x.warp() == 0) x.write(p.u32 + 3 + x.block(), x.read(reinterpret_cast<std::uint32_t*>(x.shared())));
    });
  }

 private:
  template <scope Scope, class X>
  static BATON_FN void add(X& x, std::uint32_t* cell) {
    x.template fetch_add<order::relaxed, Scope>(cell, 1u);
    x.template fetch_add<order::acquire, Scope>(cell, 1u);
    x.template fetch_add<order::release, Scope>(cell, 1u);
    x.template fetch_add<order::acq_rel, Scope>(cell, 1u);
  }
};

TEST_F(gpu_context, atomics_lose_no_update) {
  constexpr std::uint32_t blocks = 2, warps = 4, threads = blocks * warps * 32;
  both_sides<std::uint32_t> u32{3 + blocks};
  both_sides<std::uint64_t> u64{3 + threads};
  u64[0] = ~std::uint64_t{0};
  run<contend>({.u64 = u64.data(), .u32 = u32.data()}, blocks, warps, 16);
  EXPECT_EQ(u32[0], 4 * threads);
  EXPECT_EQ(u32[1], 4 * threads);
  EXPECT_EQ(static_cast<std::int32_t>(u32[2]), -2 * static_cast<std::int32_t>(threads));
  for (std::uint32_t b = 0; b < blocks; ++b) EXPECT_EQ(u32[3 + b], 4 * threads / blocks);
  EXPECT_EQ(u64[0], 1000 - (threads - 1));
  EXPECT_EQ(u64[1], std::uint64_t{threads} << 33);
  std::set<std::uint64_t> seen(u64.data() + 2, u64.data() + 3 + threads);
  EXPECT_EQ(seen.size(), threads + 1) << "each exchanged value is given back exactly once";
}

template <order Load, order Store, scope Scope, class X>
BATON_FN void bounce(X& x, std::uint64_t* wide, std::uint32_t* narrow) {
  const std::uint64_t value = x.template load<Load, Scope>(wide);
  x.template store<Store, Scope>(wide, value + 1);
  x.template store<Store, Scope>(narrow, x.template load<Load, Scope>(narrow) + 1);
  x.template fence<order::acq_rel, Scope>();
}
struct bounce_all {
  template <exec_context X>
  static BATON_FN void run(X& x, const context_params& p) {
    x.elect([&] {
      bounce<order::relaxed, order::relaxed, scope::block>(x, p.u64, p.u32);
      bounce<order::relaxed, order::release, scope::device>(x, p.u64, p.u32);
      bounce<order::relaxed, order::relaxed, scope::system>(x, p.u64, p.u32);
      bounce<order::acquire, order::release, scope::block>(x, p.u64, p.u32);
      bounce<order::acquire, order::relaxed, scope::device>(x, p.u64, p.u32);
      bounce<order::acquire, order::release, scope::system>(x, p.u64, p.u32);
    });
  }
};

TEST_F(gpu_context, loads_and_stores_of_every_order_and_scope_move_the_word) {
  both_sides<std::uint64_t> u64{1};
  both_sides<std::uint32_t> u32{1};
  u64[0] = 1ull << 40;
  run<bounce_all>({.u64 = u64.data(), .u32 = u32.data()}, 1, 1);
  EXPECT_EQ(u64[0], (1ull << 40) + 6);
  EXPECT_EQ(u32[0], 6u);
}

}  // namespace
}  // namespace baton
