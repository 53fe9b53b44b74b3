#pragma once
// Who hands what to whom in a warp-specialised matrix product: A producers and B producers fill two rings, consumers
// read one tile of each per step of k. No data here: sources and work are callables.
//
//   ring   tiles       readers of a tile (m or n)                   producers of warp tiles t = first, first + count, ...
//   A      m_warps     n_warps: consumers of tiles (m, *), as n     a_producers
//   B      n_warps     m_warps: consumers of tiles (*, n), as m     b_producers
//
//   consumer of (m, n), step k:   acquire A[m], acquire B[n], work, release B[n], release A[m]
//
// A warp with several tiles either takes all of them at each step of k (within_k), or goes through k once for each of
// its tiles (across_k, as the documents' kernel does). Edges and states: protocol/sync_strategy.hpp, for each ring.
//
// Progress of within_k: let s be the least step that some warp has not finished. No producer at s waits for a read of
//   step s or later, so it fills; no consumer at s waits for more than the fills of s. So s ends.
// across_k stops for long products, unless each warp has one tile. Consumers, from steps > stages on: a fill of A[m]
//   is free again when all (m, n) have read it, so all tiles of row m must be in one turn of their warps, and likewise
//   those of column n; rows and columns connect all tiles. Producers, from steps > 2 stages on: tile 1 begins when the
//   last fill of tile 0 has found a slot, `stages` steps ahead of readers that stop `stages` steps into the product,
//   where the other ring is full of what the readers of tile 1 have not read. why_not refuses both.
// Checked:  checks/ring_product.cpp: every combination of 1 or 2 warp tiles, producers and consumers
//   in both orders deadlocks exactly where why_not says so.
#include <utility>

#include "protocol/ring/ring_buffer.hpp"

namespace baton {

enum class tile_order { within_k, across_k };

/// How many warps do what. Numbers of tiles are multiples of the numbers of warps that share them.
struct product_roles {
  int stages = 2;
  int m_warps = 1, n_warps = 1;  // warp tiles of A and of B
  int a_producers = 1, b_producers = 1, consumers = 1;
  tile_order order = tile_order::within_k;

  constexpr int warps() const { return a_producers + b_producers + consumers; }
  constexpr int a_tiles() const { return m_warps / a_producers; }  // of one producer
  constexpr int b_tiles() const { return n_warps / b_producers; }
  constexpr int tiles() const { return m_warps * n_warps / consumers; }  // of one consumer
  constexpr ring_shape a_ring() const { return {stages, m_warps, 1, n_warps}; }
  constexpr ring_shape b_ring() const { return {stages, n_warps, 1, m_warps}; }
  friend constexpr bool operator==(const product_roles&, const product_roles&) = default;
};

/// Null if these roles finish every product, otherwise the first reason they do not.
constexpr const char* why_not(const product_roles& r) {
  if (r.m_warps < 1 || r.n_warps < 1 || r.a_producers < 1 || r.b_producers < 1 || r.consumers < 1)
    return "roles: a product needs a tile of each operand and a warp in each role";
  if (r.m_warps % r.a_producers != 0) return "a_producers: does not divide the tiles of A";
  if (r.n_warps % r.b_producers != 0) return "b_producers: does not divide the tiles of B";
  if (r.m_warps * r.n_warps % r.consumers != 0) return "consumers: does not divide the tiles of C";
  if (r.order == tile_order::across_k && (r.tiles() > 1 || r.a_tiles() > 1 || r.b_tiles() > 1))
    return "order: a warp that goes through k once a tile holds up the readers of its next tile";
  if (const char* reason = why_not(r.a_ring())) return reason;
  return why_not(r.b_ring());
}

namespace ring_detail {

/// Views of a warp's tiles, made in place: views have no empty state.
template <class View, int count>
struct views_of {
  View at[count];
};

template <class Make, int... i>
BATON_FN auto make_views(Make make, std::integer_sequence<int, i...>) {
  return views_of<decltype(make(0)), sizeof...(i)>{{make(i)...}};
}

/// step(tile, k) for all of them in the given order, until one says false.
template <int tiles, class Step>
BATON_FN bool each_step(tile_order order, int steps, Step step) {
  if (order == tile_order::across_k) {
    for (int t = 0; t < tiles; ++t)
      for (int k = 0; k < steps; ++k)
        if (!step(t, k)) return false;
    return true;
  }
  for (int k = 0; k < steps; ++k) {
    BATON_UNROLL
    for (int t = 0; t < tiles; ++t)
      if (!step(t, k)) return false;
  }
  return true;
}

}  // namespace ring_detail

/// One producer warp: `number` of `count` that share the ring's tiles. Lives through all products of a kernel.
template <class Strategy, int tiles>
class product_producer {
 public:
  BATON_FN product_producer(const ring_buffer<Strategy>& ring, int number, int count)
      : views_{ring_detail::make_views([&](int i) { return ring.producer(number + i * count); },
                                       std::make_integer_sequence<int, tiles>{})} {}

  /// One product of `steps` steps. For each of its tiles and steps: fetch(i, tile, k) before the slot is free, then
  /// put(i, tile, stage). False: gave up.
  template <exec_context X, class Fetch, class Put>
  BATON_FN bool run(X& x, tile_order order, int steps, Fetch fetch, Put put) {
    return ring_detail::each_step<tiles>(order, steps, [&](int i, int k) {
      auto& view = views_.at[i];
      fetch(i, view.tile(), k);
      ring_tile slot{x, view};
      if (!slot) return false;
      put(i, view.tile(), slot.stage());
      return true;
    });
  }

 private:
  ring_detail::views_of<producer_view<Strategy>, tiles> views_;
};

/// One consumer warp: `number` of `count` that share the tiles (m, n), in order, n fastest.
template <class StrategyA, class StrategyB, int tiles>
class product_consumer {
 public:
  static constexpr int n_warps = StrategyB::block_warps;

  BATON_FN product_consumer(const ring_buffer<StrategyA>& a, const ring_buffer<StrategyB>& b, int number,
                            int count)
      : number_{number},
        count_{count},
        a_{ring_detail::make_views([&](int i) { return a.consumer(m_of(i), n_of(i)); },
                                   std::make_integer_sequence<int, tiles>{})},
        b_{ring_detail::make_views([&](int i) { return b.consumer(n_of(i), m_of(i)); },
                                   std::make_integer_sequence<int, tiles>{})} {}

  BATON_FN int m_of(int i) const { return (number_ + i * count_) / n_warps; }
  BATON_FN int n_of(int i) const { return (number_ + i * count_) % n_warps; }

  /// One product of `steps` steps: work(i, stage of A[m_of(i)], stage of B[n_of(i)]) for each of its tiles and steps.
  /// False: gave up.
  template <exec_context X, class Work>
  BATON_FN bool run(X& x, tile_order order, int steps, Work work) {
    return ring_detail::each_step<tiles>(order, steps, [&](int i, int) {
      ring_tile a{x, a_.at[i]};
      if (!a) return false;
      ring_tile b{x, b_.at[i]};
      if (!b) return false;
      work(i, a.stage(), b.stage());
      return true;
    });
  }

 private:
  int number_, count_;
  ring_detail::views_of<consumer_view<StrategyA>, tiles> a_;
  ring_detail::views_of<consumer_view<StrategyB>, tiles> b_;
};

}  // namespace baton
