// The roles of the ring-buffered matrix product (protocol/ring/product_roles.hpp) in every schedule: which numbers of
// tiles, producers and consumers finish, and which stop.
#include "protocol/ring/product_roles.hpp"

#include <gtest/gtest.h>

#include <iostream>
#include <string>

#include "protocol/ring/per_reader_flags.hpp"
#include "protocol/ring/single_counter.hpp"
#include "protocol/ring/split_counter.hpp"
#include "sim/check.hpp"

namespace baton {
namespace {

using check::verdict;

template <template <ring_shape> class Strategy>
struct cells {
  std::uint32_t *a, *b, *slots_a, *slots_b;
};

/// One warp of a product of `steps` steps whose operands are numbered fills; `products` of them in a row.
template <template <ring_shape> class Strategy, product_roles R, class X>
bool run_role(X& x, check::program& p, const cells<Strategy>& c, int steps, int products) {
  using ring_a = ring_buffer<Strategy<R.a_ring()>>;
  using ring_b = ring_buffer<Strategy<R.b_ring()>>;
  const auto bytes = [](std::uint32_t* at) { return reinterpret_cast<std::byte*>(at); };
  const ring_a a{bytes(c.a), bytes(c.slots_a), 4};
  const ring_b b{bytes(c.b), bytes(c.slots_b), 4};
  const auto word = [](auto& ring, int tile, int stage) {
    return reinterpret_cast<std::uint32_t*>(ring.slot(tile, stage));
  };
  const auto produce = [&](auto producer, auto& ring, std::uint32_t offset) {
    std::uint32_t item = 0;
    for (int i = 0; i < products; ++i) {
      const auto fetch = [&](int, int tile, int k) {
        item = offset + static_cast<std::uint32_t>(100 * i + 10 * k + tile);
      };
      const auto put = [&](int, int tile, int stage) { x.write(word(ring, tile, stage), item); };
      if (!producer.run(x, R.order, steps, fetch, put)) return false;
    }
    return true;
  };
  const int warp = x.warp();
  if (warp < R.a_producers)
    return produce(product_producer<Strategy<R.a_ring()>, R.a_tiles()>{a, warp, R.a_producers}, a, 0);
  if (warp < R.a_producers + R.b_producers)
    return produce(
        product_producer<Strategy<R.b_ring()>, R.b_tiles()>{b, warp - R.a_producers, R.b_producers}, b, 1000);
  product_consumer<Strategy<R.a_ring()>, Strategy<R.b_ring()>, R.tiles()> consumer{
      a, b, warp - R.a_producers - R.b_producers, R.consumers};
  std::uint32_t turns[R.tiles()] = {};
  for (int i = 0; i < products; ++i) {
    const bool ok = consumer.run(x, R.order, steps, [&](int t, int stage_a, int stage_b) {
      const std::uint32_t k = turns[t]++;
      const std::uint32_t at =
          k / static_cast<std::uint32_t>(steps) * 100 + k % static_cast<std::uint32_t>(steps) * 10;
      const int m = consumer.m_of(t), n = consumer.n_of(t);
      p.require(x.read(word(a, m, stage_a)) == at + static_cast<std::uint32_t>(m), "A of this step");
      p.require(x.read(word(b, n, stage_b)) == 1000 + at + static_cast<std::uint32_t>(n), "B of this step");
    });
    if (!ok) return false;
  }
  return true;
}

template <template <ring_shape> class Strategy, product_roles R>
check::result explore_product(int steps, int products = 1) {
  return check::explore({}, [=](check::program& p) {
    const auto take = [&](std::size_t words, const char* name) {
      return p.allocate<std::uint32_t>(words, name);
    };
    const cells<Strategy> c{take(Strategy<R.a_ring()>::shared_bytes / 4, "cell_a"),
                            take(Strategy<R.b_ring()>::shared_bytes / 4, "cell_b"),
                            take(static_cast<std::size_t>(R.a_ring().total_tiles()), "a"),
                            take(static_cast<std::size_t>(R.b_ring().total_tiles()), "b")};
    for (int w = 0; w < R.warps(); ++w)
      p.spawn(0, 0, w, [=, &p](check::context& x) { run_role<Strategy, R>(x, p, c, steps, products); });
  });
}

std::string text(const product_roles& r) {
  return std::to_string(r.m_warps) + "x" + std::to_string(r.n_warps) + " tiles, " +
         std::to_string(r.a_producers) + "+" + std::to_string(r.b_producers) + " producers, " +
         std::to_string(r.consumers) + " consumers, " +
         (r.order == tile_order::within_k ? "within k" : "across k");
}

/// Over more than twice as many steps as slots, deadlocks are exactly where why_not has a reason; with as many slots as
/// steps there are none.
template <product_roles R>
void expect_agreement(int& refused) {
  const check::result longer = explore_product<per_reader_flags, R>(2 * R.stages + 1);
  const bool stops = longer.found == verdict::deadlock;
  EXPECT_EQ(stops, why_not(R) != nullptr) << text(R) << "\n" << longer.summary() << "\n" << longer.text;
  EXPECT_TRUE(stops || longer.holds()) << text(R) << "\n" << longer.text << longer.counterexample;
  const check::result as_long = explore_product<per_reader_flags, R>(R.stages);
  EXPECT_TRUE(as_long.holds()) << text(R) << "\n" << as_long.text;
  refused += stops ? 1 : 0;
}

template <int m, int n, int consumers, tile_order order>
void with_producers(int& refused) {
  if constexpr (m * n % consumers == 0) {
    expect_agreement<product_roles{1, m, n, 1, 1, consumers, order}>(refused);
    if constexpr (m == 2) expect_agreement<product_roles{1, m, n, 2, 1, consumers, order}>(refused);
    if constexpr (n == 2) expect_agreement<product_roles{1, m, n, 1, 2, consumers, order}>(refused);
    if constexpr (m == 2 && n == 2) expect_agreement<product_roles{1, m, n, 2, 2, consumers, order}>(refused);
  }
}

template <int consumers, tile_order order>
void with_tiles(int& refused) {
  with_producers<1, 1, consumers, order>(refused);
  with_producers<2, 1, consumers, order>(refused);
  with_producers<1, 2, consumers, order>(refused);
  with_producers<2, 2, consumers, order>(refused);
}

template <tile_order order>
int refused_in() {
  int refused = 0;
  with_tiles<1, order>(refused);
  with_tiles<2, order>(refused);
  with_tiles<4, order>(refused);
  return refused;
}

TEST(ring_product_check, within_k_every_combination_finishes) {
  EXPECT_EQ(refused_in<tile_order::within_k>(), 0);
}

TEST(ring_product_check, across_k_a_warp_with_two_tiles_deadlocks_and_why_not_says_so) {
  EXPECT_GT(refused_in<tile_order::across_k>(), 10);
}

TEST(ring_product_check, a_deadlock_shows_both_operands_waiting) {
  const check::result r =
      explore_product<per_reader_flags, product_roles{1, 2, 1, 2, 1, 1, tile_order::across_k}>(2);
  EXPECT_EQ(r.found, verdict::deadlock);
  EXPECT_NE(r.text.find("ring.slot_free"), std::string::npos) << r.text;
  EXPECT_NE(r.text.find("ring.slot_filled"), std::string::npos) << r.text;
}

TEST(ring_product_check, counters_finish_two_products_in_a_row) {
  constexpr product_roles small{2, 1, 2, 1, 1, 2};
  constexpr product_roles shared{1, 2, 2, 1, 1, 2};
  const auto expect_holds = [](const check::result& r, const char* what) {
    EXPECT_TRUE(r.holds()) << r.summary() << "\n" << r.text << "\n" << r.counterexample;
    std::cout << what << ": " << r.summary() << "\n";
  };
  expect_holds(explore_product<split_counter_sync, small>(3, 2),
               "split, 1x2 tiles, 2 slots, 2 products of 3 steps");
  expect_holds(explore_product<split_counter_sync, shared>(2, 2), "split, 2x2 tiles on 2 consumers, 1 slot");
  expect_holds(explore_product<single_counter_sync, small>(2, 2),
               "single, 1x2 tiles, 2 slots, 2 products of 2 steps");
  expect_holds(explore_product<per_reader_flags, product_roles{2, 2, 2, 2, 2, 4}>(5, 2),
               "flags, the documented roles");
}

}  // namespace
}  // namespace baton
