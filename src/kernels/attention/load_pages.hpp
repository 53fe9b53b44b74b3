#pragma once
// The loading warps where keys are in pages: the same slots in the same order, each in boxes of 16 or 32 keys, which lie in one
// page. Where these are is read from the table a tile or more ahead of their first use, all lanes at once, as reading takes a
// fifth of a tile's time.
#include "kernels/attention/load.hpp"

namespace baton::attention_kernels {

/// Tiles whose boxes a warp has, one a lane; and those from one reading of the table to the next.
template <config C>
BATON_FN constexpr int tiles_of_lanes(int box_bits) {
  return (warp_lanes << box_bits) / C.tile_keys();
}
template <config C>
BATON_FN constexpr int tiles_of_turn(int box_bits) {
  return tiles_of_lanes<C>(box_bits) >= 8 ? tiles_of_lanes<C>(box_bits) / 2 : 1;
}

/// Rows of the pages' matrix where boxes begin: a lane has that of one box of the next tiles'.
template <config C, class X>
class rows_ahead {
  static constexpr int least_tiles = tiles_of_lanes<C>(least_box_bits);
  static_assert((least_tiles & (least_tiles - 1)) == 0);
  static_assert(tiles_of_turn<C>(least_box_bits) + C.tiles_ahead <= least_tiles);

 public:
  BATON_FN rows_ahead(X& x, const paged_params& p) : x_{x}, p_{p} { ask(0); }

  /// Of a tile.
  BATON_FN int boxes() const { return C.tile_keys() >> p_.pages.box_bits; }
  /// From here on, up to the next step, it knows tiles n to n + tiles_ahead. For n = 0, 1, 2, ...
  BATON_FN void step_to(int n) {
    const int turn = tiles_of_turn<C>(p_.pages.box_bits);
    if ((n & (turn - 1)) != 0) return;
    const item w = kept_item<C>(x_);
    x_.each_lane([&](int lane) {
      const int key = key_of(w, lane, n);
      row_[lane] = is_seen(w, key) ? p_.pages.row_of(entry_[lane], key, w.kv_head) : p_.pages.no_row();
    });
    ask(n + turn);
  }
  /// Of box `i` of tile n.
  BATON_FN int row(int n, int i) { return x_.broadcast(row_, ((n * boxes()) & (warp_lanes - 1)) + i); }

 private:
  /// Reads the entries of tiles n to n + tiles - 1, which the next turn makes rows of.
  BATON_FN void ask(int n) {
    const item w = kept_item<C>(x_);
    x_.each_lane([&](int lane) {
      const int key = key_of(w, lane, n);
      entry_[lane] = is_seen(w, key) ? x_.read(p_.pages.table + p_.pages.entry_of(w.key, key)) : 0;
    });
  }
  /// The first key of a lane's box, of the tile from `first` on whose turn it is.
  BATON_FN int key_of(const item& w, int lane, int first) const {
    const int key = lane << p_.pages.box_bits;  // of all tiles that lanes have
    const int n = first + ((key / C.tile_keys() - first) & (tiles_of_lanes<C>(p_.pages.box_bits) - 1));
    return w.tile_of(n) * C.tile_keys() + key % C.tile_keys();
  }
  /// Entries of boxes that nobody sees may be anything. A whole slot begins at its first box, seen or not.
  BATON_FN bool is_seen(const item& w, int key) const {
    const int first = key & -p_.k_keys;
    return first + p_.k_keys > w.first_key && first < w.end_key;
  }

  X& x_;
  const paged_params& p_;
  typename X::template lanes<std::int32_t> entry_, row_;
};

template <config C, class X>
class load_pages_role : load_base<C, X> {
  using base = load_base<C, X>;
  using base::x_, base::p_, base::own_;
  /// Boxes of 16 keys; of 32 there are half as many, and each has the place of the first of two.
  static constexpr int k_boxes = C.block_keys() / least_box, v_boxes = C.v_slot_keys() / least_box;

 public:
  BATON_FN load_pages_role(X& x, const paged_params& p) : base{x, p}, rows_{x, p} {}

  BATON_FN void run_k() {
    rows_.step_to(0);
    base::run_k([&](auto first, int n) { load_k<first.value>(n); },
                [&](int n) {
                  rows_.step_to(n);
                  ask_ahead(n + C.tiles_ahead);
                });
  }
  BATON_FN void run_v() {
    base::run_v([&](int n) {
      rows_.step_to(n);
      load_v(n);
    });
  }

 private:
  BATON_FN bool doubled() const { return p_.pages.box_bits > least_box_bits; }
  /// The row of the box that has a tile's 16 keys number `i`.
  BATON_FN int row(int n, int i) { return rows_.row(n, doubled() ? i / 2 : i); }
  BATON_FN int first_chunk() const {
    return C.pads() ? 0 : p_.pages.column_of(own_.kv_head) / tile<C>::columns;
  }
  /// In the map, where heads are a dimension of their own if they are columns of a row.
  BATON_FN int head() const { return C.pads() && p_.pages.head_columns > 0 ? own_.kv_head : 0; }
  BATON_FN int v_chunk() const { return first_chunk() + own_.rank * (C.block_columns() / tile<C>::columns); }

  template <bool first>
  BATON_FN void load_k(int n) {
    int row[k_boxes];
    BATON_UNROLL
    for (int b = 0; b < k_boxes; ++b) row[b] = this->row(n, own_.rank * k_boxes + b);
    this->template each_slot<C.k_slots()>([&](int i) { load_k_slot<first>(i, row); });
  }
  template <bool first>
  BATON_FN void load_k_slot(int i, const int (&row)[k_boxes]) {
    if constexpr (first) this->load_q_before(i);
    this->fill(nullptr, [&](const tile<C>& slot, mbarrier* counts) {
      load_boxes(slot, p_.k, p_.has_whole_k, row, first_chunk() + C.slot_chunks() * i, false, counts);
    });
  }
  BATON_FN void load_v(int n) {
    const bool turned = is_turned<C>(p_, own_.plain, n);
    mbarrier* landed = this->landed(n);
    this->template each_slot<C.v_slots()>([&](int i) { load_v_slot(n, i, turned, landed); });
  }
  BATON_FN void load_v_slot(int n, int i, bool turned, mbarrier* landed) {
    int row[v_boxes];
    BATON_UNROLL
    for (int b = 0; b < v_boxes; ++b)
      row[b] = this->row(n, (i < 2 ? own_.rank : 1 - own_.rank) * k_boxes + i % 2 * v_boxes + b);
    this->fill(landed != nullptr ? landed + i : nullptr, [&](const tile<C>& slot, mbarrier* counts) {
      const bool turns = i >= 2 && turned;
      load_boxes(slot, turns ? p_.v_turned : p_.v, p_.has_whole_v, row, v_chunk(), turns, counts);
    });
  }
  /// A slot of which `boxes` times 16 keys are all those of a chunk; `turns`: by the map of V turned.
  template <int boxes>
  BATON_FN void load_boxes(const tile<C>& slot, const tensor_map& map, bool is_whole, const int (&row)[boxes],
                           int chunk, bool turns, mbarrier* counts) {
    x_.box_load(slot.at, map, {0, row[0], turns ? 0 : chunk, head(), turns ? chunk : 0}, counts);
    if (is_whole) return;
    BATON_UNROLL
    for (int i = 1; i < slot_rows / least_box; ++i)
      if (i % 2 == 0 || !doubled())
        x_.box_load(slot.from_row(i * least_box).at, map, {0, row[i % boxes], chunk + i / boxes, head(), 0},
                    counts);
  }
  /// One box of `sharers` of a tile: of the keys that the block scores, all columns; of all keys, its own columns of V.
  BATON_FN void ask_ahead(int n) {
    if constexpr (C.tiles_ahead > 0) {
      constexpr int parts = C.chunks() / ahead_chunks;
      const int own = rows_.boxes() / C.blocks(), of_k = own * parts;
      if (n >= own_.tiles) return;
      BATON_ROLLED
      for (int i = this->share(n); i < of_k + rows_.boxes(); i += base::sharers) {
        const bool k = i < of_k;
        const int row = rows_.row(n, k ? own_.rank * own + i / parts : i - of_k);
        const int chunk = k ? first_chunk() + i % parts * ahead_chunks : v_chunk();
        x_.elect([&] { x_.ask_for_box(k ? p_.k_ahead : p_.v_ahead, {0, row, chunk, 0, 0}); });
      }
    }
  }

  rows_ahead<C, X> rows_;
};

}  // namespace baton::attention_kernels
