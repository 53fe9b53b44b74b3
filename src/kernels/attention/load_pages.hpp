#pragma once
// The loading warps where keys are in pages: the same slots in the same order, each in boxes of page_rows keys, which lie in one
// page. Where these are is read from the table a tile or more ahead of their first use, all lanes at once, as reading takes a
// fifth of a tile's time.
#include "kernels/attention/load.hpp"

namespace baton::attention_kernels {

/// Rows of the pages' matrix where boxes begin: a lane has that of one box of the next tiles'.
template <config C, class X>
class rows_ahead {
 public:
  static constexpr int boxes = C.tile_keys() / C.page_rows, tiles = warp_lanes / boxes;
  static_assert(tiles >= C.tiles_ahead + 2 && (tiles & (tiles - 1)) == 0);
  /// Tiles from one reading to the next.
  static constexpr int turn = tiles >= 8 ? tiles / 2 : 1;
  static_assert(turn + C.tiles_ahead + 1 <= tiles);

  BATON_FN rows_ahead(X& x, const paged_params& p) : x_{x}, p_{p} { ask(-1); }

  /// From here on, up to the next step, it knows tiles n - 1 to n + tiles_ahead. For n = 0, 1, 2, ...
  BATON_FN void step_to(int n) {
    if (n % turn != 0) return;
    const item w = kept_item<C>(x_);
    x_.each_lane([&](int lane) {
      const int key = key_of(w, lane, n - 1);
      row_[lane] = is_seen(w, key) ? p_.pages.row_of(entry_[lane], key, w.kv_head) : p_.pages.no_row();
    });
    ask(n + turn - 1);
  }
  /// Of box `i` of tile n.
  BATON_FN int row(int n, int i) { return x_.broadcast(row_, n % tiles * boxes + i); }

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
  BATON_FN static int key_of(const item& w, int lane, int first) {
    const int n = first + ((lane / boxes - first) & (tiles - 1));
    return w.tile_of(n) * C.tile_keys() + lane % boxes * C.page_rows;
  }
  /// Entries of boxes that nobody sees may be anything. A whole slot begins at its first box, seen or not.
  BATON_FN bool is_seen(const item& w, int key) const {
    const int box = p_.has_whole_slots ? C.block_keys() : C.page_rows, first = key & -box;
    return first + box > w.first_key && first < w.end_key;
  }

  X& x_;
  const paged_params& p_;
  typename X::template lanes<std::int32_t> entry_, row_;
};

template <config C, class X>
class load_pages_role : load_base<C, X> {
  using base = load_base<C, X>;
  using base::x_, base::p_, base::own_;
  static constexpr int k_boxes = C.block_keys() / C.page_rows, v_boxes = C.v_slot_keys() / C.page_rows;

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
    for (int b = 0; b < k_boxes; ++b) row[b] = rows_.row(n, own_.rank * k_boxes + b);
    BATON_UNROLL
    for (int i = 0; i < C.k_slots(); ++i) {
      if constexpr (first) this->load_q_before(i);
      this->fill(nullptr, [&](const tile<C>& slot, mbarrier* counts) {
        const int chunk = first_chunk() + C.slot_chunks() * i;
        if (p_.has_whole_slots)
          x_.box_load(slot.at, p_.k_slots, {0, row[0], chunk, head(), 0}, counts);
        else
          load_parts(slot, p_.k, row, chunk, counts);
      });
    }
  }
  BATON_FN void load_v(int n) {
    const bool turned = C.turns_v() && own_.plain.have(n);
    mbarrier* landed = this->landed(n);
    BATON_UNROLL
    for (int i = 0; i < C.v_slots(); ++i) {
      int row[v_boxes];
      BATON_UNROLL
      for (int b = 0; b < v_boxes; ++b)
        row[b] = rows_.row(n, (i < 2 ? own_.rank : 1 - own_.rank) * k_boxes + i % 2 * v_boxes + b);
      this->fill(landed != nullptr ? landed + i : nullptr, [&](const tile<C>& slot, mbarrier* counts) {
        if constexpr (v_boxes == 1)
          load_whole_v(slot, row[0], v_chunk(), i >= 2 && turned, counts);
        else
          load_parts(slot, p_.v, row, v_chunk(), counts);
      });
    }
  }
  BATON_FN void load_whole_v(const tile<C>& slot, int row, int chunk, bool turns, mbarrier* counts) {
    const box_place place{0, row, turns ? 0 : chunk, head(), turns ? chunk : 0};
    x_.box_load(slot.at, turns ? p_.v_turned : p_.v, place, counts);
  }
  /// A slot of which `boxes` are all keys of a chunk.
  template <int boxes>
  BATON_FN void load_parts(const tile<C>& slot, const tensor_map& map, const int (&row)[boxes], int chunk,
                           mbarrier* counts) {
    BATON_UNROLL
    for (int i = 0; i < slot_rows / C.page_rows; ++i)
      x_.box_load(slot.from_row(i * C.page_rows).at, map, {0, row[i % boxes], chunk + i / boxes, head(), 0},
                  counts);
  }
  /// One box of `sharers` of a tile: of the keys that the block scores, all columns; of all keys, its own columns of V.
  BATON_FN void ask_ahead(int n) {
    if constexpr (C.tiles_ahead > 0) {
      constexpr int parts = C.chunks() / ahead_chunks, of_k = k_boxes * parts;
      if (n >= own_.tiles) return;
      BATON_ROLLED
      for (int i = this->share(n); i < of_k + rows_.boxes; i += base::sharers) {
        const bool k = i < of_k;
        const int row = rows_.row(n, k ? own_.rank * k_boxes + i / parts : i - of_k);
        const int chunk = k ? first_chunk() + i % parts * ahead_chunks : v_chunk();
        x_.elect([&] { x_.ask_for_box(k ? p_.k_ahead : p_.v_ahead, {0, row, chunk, 0, 0}); });
      }
    }
  }

  rows_ahead<C, X> rows_;
};

}  // namespace baton::attention_kernels
