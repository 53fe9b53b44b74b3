#pragma once
// The program that tests of ring buffers run on every back end: each tile of a ring has one producer warp, which
// numbers its items, and one warp a reader, which checks the numbers.
//
//   warps    [0, tiles)                     producers
//            [tiles + t * readers, ...)     the readers of tile t
#include "protocol/ring/ring_buffer.hpp"

namespace baton::checks {

struct ring_rounds {
  int items = 4;              // fills of each tile
  int words = 1;              // of a slot, written and read one by one
  bool reader_stops = false;  // reader 0, with its first item in hand
};

constexpr std::uint32_t ring_word(int tile, int item, int i) {
  return static_cast<std::uint32_t>(1 + 1000003 * tile + 1009 * item + i);
}

namespace ring_detail {

template <class Ring, class X>
BATON_FN std::uint32_t* words_of(const Ring& ring, X&, int tile, int stage) {
  return reinterpret_cast<std::uint32_t*>(ring.slot(tile, stage));
}

template <class Ring, class X>
BATON_FN bool produce(X& x, const Ring& ring, int tile, const ring_rounds& rounds) {
  auto slots = ring.producer(tile);
  for (int item = 0; item < rounds.items; ++item) {
    if (!slots.acquire(x)) return false;
    std::uint32_t* to = words_of(ring, x, tile, slots.stage());
    x.each(rounds.words, [&](int i) { x.write(to + i, ring_word(tile, item, i)); });
    slots.release(x);
  }
  return true;
}

template <class Ring, class X, class Wrong>
BATON_FN bool consume(X& x, const Ring& ring, int tile, int reader, const ring_rounds& rounds, Wrong wrong) {
  auto slots = ring.consumer(tile, reader);
  for (int item = 0; item < rounds.items; ++item) {
    if (!slots.acquire(x)) return false;
    const std::uint32_t* from = words_of(ring, x, tile, slots.stage());
    x.each(rounds.words, [&](int i) {
      if (x.read(from + i) != ring_word(tile, item, i)) wrong();
    });
    if (rounds.reader_stops && reader == 0) return true;
    slots.release(x);
  }
  return true;
}

}  // namespace ring_detail

/// One warp's part; `wrong` is called for each word that is not what it should be. False: gave up.
template <class Ring, exec_context X, class Wrong>
BATON_FN bool run_ring(X& x, const Ring& ring, const ring_rounds& rounds, Wrong wrong) {
  const int tiles = ring.shape.block_warps(), readers = ring.shape.readers;
  if (x.warp() < tiles) return ring_detail::produce(x, ring, x.warp(), rounds);
  const int reader = x.warp() - tiles;
  return ring_detail::consume(x, ring, reader / readers, reader % readers, rounds, wrong);
}

}  // namespace baton::checks
