#pragma once
// The loading warps: one brings K and V through the ring, tile by tile, as far ahead as there are free slots, the next item's
// behind this one's; another brings Q once the consumers are done with that of the item before.
#include <type_traits>

#include "kernels/decode_attention/items.hpp"
#include "kernels/decode_attention/waits.hpp"

namespace baton::decode_attention {

template <config C, class X>
class load_role {
 public:
  BATON_FN load_role(X& x, const params& p)
      : x_{x}, p_{p}, slots_{slot_pipeline<C>{block_plan<C>{}.slot_barriers(x)}.producer()} {}

  /// `items` are at the first part if there `is_one`, or past all of them.
  BATON_FN void run(walk<C, X>& items, bool is_one) {
    // Free slots are awaited that many ahead of those that are filled.
    if (known_to_all(x_, x_.read(&block_plan<C>{}.dealt(x_)->spared)) > 0) {
      BATON_UNROLL
      for (int i = 0; i < C.spare_slots(); ++i) room_.step();
    }
    for (; is_one; is_one = items.next()) {
      const part w = items.now();
      sequence_ = known_to_all(x_, w.sequence), kv_head_ = known_to_all(x_, w.kv_head);
      const int end = known_to_all(x_, w.end_piece);
      int piece = known_to_all(x_, w.first_piece);
      if (piece < end) next_ = places_of(piece, end);
      for (int tile = 0; piece < end; piece += C.tile_pieces(), ++tile) {
        if (tile % tiles_of_places == 0) {
          places_ = next_;
          // The next ones are read while these wait for free slots.
          if (piece + warp_lanes < end) next_ = places_of(piece + warp_lanes, end);
        }
        const int first_lane = tile % tiles_of_places * C.tile_pieces(),
                  count = smaller(end - piece, C.tile_pieces());
        if (count == C.tile_pieces())
          load_tile(first_lane, std::integral_constant<int, C.tile_pieces()>{});
        else
          load_tile(first_lane, count);
      }
    }
  }

 private:
  using ints = typename X::template lanes<std::int32_t>;
  static constexpr int tiles_of_places = warp_lanes / C.tile_pieces();
  /// Lane i has that of piece i: page and head in steps, and its first row there by eights.
  struct piece_places {
    ints page, row;
  };

  BATON_FN piece_places places_of(int piece, int end) {
    piece_places at;
    const std::int32_t* const table = p_.page_table + std::int64_t{sequence_} * p_.max_pages;
    x_.each_lane([&](int lane) {
      const int key = (piece + lane) * piece_keys;
      const int page = p_.page_size.quotient(key);
      at.page[lane] =
          (piece + lane < end ? x_.read(table + page) : 0) * p_.page_steps + kv_head_ * p_.head_steps;
      at.row[lane] = p_.page_size.remainder(key) / 8;
    });
    return at;
  }
  /// `count` pieces, whose places lanes `lane` and on have.
  template <class Count>
  BATON_FN void load_tile(int lane, Count count) {
    std::int32_t page[C.tile_pieces()], row[C.tile_pieces()];
    BATON_UNROLL
    for (int n = 0; n < C.tile_pieces(); ++n)
      page[n] = x_.broadcast(places_.page, lane + n), row[n] = x_.broadcast(places_.row, lane + n);
    BATON_UNROLL
    for (int i = 0; i < C.k_slots(); ++i)
      fill(count * C.k_piece_bytes(), [&](std::byte* slot, mbarrier* b) {
        BATON_UNROLL
        for (int n = 0; n < C.tile_pieces(); ++n)
          if (n < count)
            x_.box_load_once(slot + n * C.k_piece_bytes(), p_.k,
                             {0, 0, i * C.k_slot_chunks(), row[n], page[n]}, b);
      });
    BATON_UNROLL
    for (int first = 0; first < C.tile_pieces(); first += C.v_slot_pieces()) {
      if (first >= count) continue;
      fill(smaller(count - first, C.v_slot_pieces()) * C.v_piece_bytes(), [&](std::byte* slot, mbarrier* b) {
        BATON_UNROLL
        for (int n = 0; n < C.v_slot_pieces(); ++n)
          if (first + n < count)
            x_.box_load_once(slot + n * C.v_piece_bytes(), p_.v, {0, 0, 0, row[first + n], page[first + n]},
                             b);
      });
    }
  }
  /// The next slot, by copies(slot, barrier), which bring so many bytes.
  template <class Copies>
  BATON_FN void fill(int bytes, Copies copies) {
    room_.producer_acquire_by(wait_or_note<scope::block, C>(x_, wait_of::slot_free));
    x_.elect([&] {
      x_.template mbarrier_arrive_expect<scope::block>(slots_.producer_mbar(), bytes);
      copies(slot_at<C>(x_, slots_.index()), slots_.producer_mbar());
    });
    slots_.step(), room_.step();
  }

  X& x_;
  const params& p_;
  typename slot_pipeline<C>::producer_end slots_, room_{slots_};
  int sequence_, kv_head_;
  piece_places places_, next_;
};

/// Rows of Q: those of a token's heads follow one another. What a box holds behind the item's rows reaches no output.
template <config C, class X>
class load_q_role {
 public:
  BATON_FN load_q_role(X& x, const params& p) : x_{x}, p_{p} {}

  BATON_FN void run() {
    walk<C, X> items{x_, p_};
    items.start();
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
