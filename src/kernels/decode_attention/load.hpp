#pragma once
// The loading warps: one brings K and V through the ring, tile by tile, as far ahead as there are free slots, the next item's
// behind this one's; another brings Q once the consumers are done with that of the item before.
#include "kernels/decode_attention/items.hpp"

namespace baton::decode_attention {

template <config C, class X>
class load_role {
 public:
  BATON_FN load_role(X& x, const params& p)
      : x_{x}, p_{p}, slots_{slot_pipeline<C>{block_plan<C>{}.slot_barriers(x)}.producer()} {}

  BATON_FN void run() {
    walk<C, X> items{x_, p_};
    while (items.next()) {
      w_ = items.now();
      const int end = w_.end_piece;
      int piece = w_.first_piece;
      if (piece < end) pages_ = pages_of(piece, end);
      BATON_ROLLED
      for (; piece < end; piece += tile_pieces)
        if (!load_tile(piece, end)) return;
    }
  }

 private:
  using ints = typename X::template lanes<std::int32_t>;

  /// Of the tile that begins at `piece`: lane i has the page of its piece i.
  BATON_FN ints pages_of(int piece, int end) {
    ints pages;
    const std::int32_t* const table = p_.page_table + std::int64_t{w_.sequence} * p_.max_pages;
    x_.each_lane([&](int lane) {
      const bool has_one = lane < tile_pieces && piece + lane < end;
      pages[lane] = has_one ? x_.read(table + p_.page_size.quotient((piece + lane) * piece_keys)) : 0;
    });
    return pages;
  }
  BATON_FN bool load_tile(int piece, int end) {
    const int count = smaller(end - piece, tile_pieces);
    const ints pages = pages_;
    // The next tile's are read while this one waits for free slots.
    if (piece + tile_pieces < end) pages_ = pages_of(piece + tile_pieces, end);
    BATON_ROLLED
    for (int i = 0; i < C.k_slots(); ++i) {
      if (!acquire(count * piece_keys * C.k_slot_chunks() * tile<C>::row_bytes)) return false;
      const tile<C> slot = slot_tile<C>(x_, slots_.index());
      BATON_ROLLED
      for (int n = 0; n < count; ++n) {
        const int page = x_.broadcast(pages, n);
        x_.elect([&] {
          BATON_UNROLL
          for (int c = 0; c < C.k_slot_chunks(); ++c)
            x_.box_load(slot.from_row(c * tile_keys + n * piece_keys).at, p_.k,
                        place_of(piece + n, i * C.k_slot_chunks() + c, page), slots_.producer_mbar());
        });
      }
      slots_.step();
    }
    BATON_ROLLED
    for (int n = 0; n < count; ++n) {
      if (!acquire(C.slot_bytes())) return false;
      const int page = x_.broadcast(pages, n);
      x_.elect([&] {
        x_.box_load(slot_tile<C>(x_, slots_.index()).at, p_.v, place_of(piece + n, 0, page),
                    slots_.producer_mbar());
      });
      slots_.step();
    }
    return true;
  }
  /// The next slot, on whose barrier so many bytes will be counted.
  BATON_FN bool acquire(int bytes) {
    if (!slots_.producer_acquire(x_, {.where = "decode.slot_free"})) return false;
    x_.elect([&] { x_.template mbarrier_arrive_expect<scope::block>(slots_.producer_mbar(), bytes); });
    return true;
  }
  BATON_FN box_place place_of(int piece, int chunk, int page) {
    return {0, p_.page_size.remainder(piece * piece_keys), chunk, w_.kv_head, page};
  }

  X& x_;
  const params& p_;
  typename slot_pipeline<C>::producer_end slots_;
  part w_{};
  ints pages_{};
};

/// Rows of Q: those of a token's heads follow one another. What a box holds behind the item's rows reaches no output.
template <config C, class X>
class load_q_role {
 public:
  BATON_FN load_q_role(X& x, const params& p) : x_{x}, p_{p} {}

  BATON_FN void run() {
    walk<C, X> items{x_, p_};
    for (parity free = parity::odd; items.next(); free = !free) {
      const part w = items.now();
      if (!x_.template mbarrier_wait<scope::block>(block_plan<C>{}.q_free(x_), free,
                                                   {.where = "decode.q_free"}))
        return;
      x_.elect([&] {
        mbarrier* const filled = block_plan<C>{}.q_filled(x_);
        x_.template mbarrier_arrive_expect<scope::block>(filled,
                                                         C.chunks() * p_.box_rows * tile<C>::row_bytes);
        for (int c = 0; c < C.chunks(); ++c)
          x_.box_load(q_tile<C>(x_, c).at, p_.q, {0, w.kv_head * p_.heads_of_group, w.row, c, 0}, filled);
      });
    }
  }

 private:
  X& x_;
  const params& p_;
};

}  // namespace baton::decode_attention
