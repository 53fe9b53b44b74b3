#pragma once
// The loading warp: Q once, then for each tile of keys, from the last to the first, K, and V one tile behind it. And the clearing
// warp, which rids V of keys that no row of the item sees.
#include "kernels/attention/items.hpp"

namespace baton::attention_kernels {

/// What the loading warp does wherever keys lie.
template <config C, class X>
class load_base {
 protected:
  BATON_FN load_base(X& x, const kernel_params<C>& p)
      : x_{x}, p_{p}, slots_{slot_pipeline<C>{block_plan<C>{}.slot_barriers(x)}.producer()} {}

  BATON_FN item kept() { return kept_item<C>(x_); }
  BATON_FN int rank() { return x_.cluster_block(); }
  /// One lane.
  BATON_FN void start() {
    x_.prefetch(p_.q), x_.prefetch(p_.k), x_.prefetch(p_.v);
    if constexpr (C.turns_v()) x_.prefetch(p_.v_turned);
    load_q();
  }
  /// The next slot, by boxes(slot, barrier), whose bytes are counted on its barrier, or elsewhere.
  template <class Boxes>
  BATON_FN bool fill(mbarrier* landed, Boxes boxes) {
    if (!slots_.producer_acquire(x_, {.where = "attention.slot_free"})) return false;
    x_.elect([&] {
      mbarrier* counts = landed != nullptr ? landed : slots_.producer_mbar();
      x_.template mbarrier_arrive_expect<scope::block>(counts, slot_bytes);
      boxes(slot_tile<C>(x_, slots_.index()), counts);
    });
    slots_.step();
    return true;
  }
  /// Where V of a tile is counted first: elsewhere, if some of it is to be cleared.
  BATON_FN mbarrier* landed(int n) {
    return kept().has_unseen(n, C.tile_keys()) ? landed_of<C>(x_, n) : nullptr;
  }
  /// Of blocks that make other rows of the same head, each asks the cache for one share of `sharers`.
  static constexpr int sharers = 8;

  X& x_;
  const kernel_params<C>& p_;

 private:
  BATON_FN void load_q() {
    mbarrier* filled = block_plan<C>{}.q_filled(x_);
    x_.template mbarrier_arrive_expect<scope::block>(
        filled, consumer_groups * C.q_in_memory() * group_rows * tile<C>::row_bytes);
    const item w = kept();
    for (int g = 0; g < consumer_groups; ++g)
      for (int c = 0; c < C.q_in_memory(); ++c)
        x_.box_load(q_tile<C>(x_, g, c).at, p_.q,
                    {0, w.row + g * group_rows, w.head * C.chunks() + C.q_in_registers + c, 0, 0}, filled);
  }

  typename slot_pipeline<C>::producer_end slots_;
};

/// Of keys in rows.
template <config C, class X>
class load_role : load_base<C, X> {
  using base = load_base<C, X>;
  using base::x_, base::p_, base::kept, base::rank;

 public:
  BATON_FN load_role(X& x, const params& p) : base{x, p} {}

  BATON_FN void run() {
    x_.elect([&] { this->start(); });
    BATON_ROLLED
    for (int n = 0; n <= kept().tiles; ++n) {
      ask_ahead(n + C.tiles_ahead);
      if (n < kept().tiles && !load_k(n)) return;
      if (n > 0 && !load_v(n - 1)) return;
    }
  }

 private:
  BATON_FN int first_chunk() { return kept().kv_head * C.chunks(); }
  /// The first of a tile's keys that block `rank` scores, in all sequences' keys.
  BATON_FN int keys_of(int number, int rank) {
    const item w = kept();
    return w.key + w.tile_of(number) * C.tile_keys() + rank * block_keys;
  }
  BATON_FN box_place k_place(int n, int i) { return {0, keys_of(n, rank()), first_chunk() + 2 * i, 0, 0}; }
  BATON_FN int v_chunk() { return first_chunk() + rank() * (block_columns / tile<C>::columns); }
  BATON_FN bool fill_with(const tensor_map& map, const box_place& place, mbarrier* landed) {
    return this->fill(
        landed, [&](const tile<C>& slot, mbarrier* counts) { x_.box_load(slot.at, map, place, counts); });
  }

  BATON_FN bool load_k(int n) {
    BATON_ROLLED
    for (int i = 0; i < C.k_slots(); ++i)
      if (!fill_with(p_.k, k_place(n, i), nullptr)) return false;
    return true;
  }
  BATON_FN bool load_v(int n) {
    const bool turned = C.turns_v() && kept().plain.have(n);
    mbarrier* landed = this->landed(n);
    BATON_ROLLED
    for (int i = 0; i < C.v_slots(); ++i) {
      const bool turns = i >= 2 && turned;
      const int key = keys_of(n, i < 2 ? rank() : 1 - rank()) + i % 2 * v_slot_keys;
      const box_place place{0, key, turns ? 0 : v_chunk(), 0, turns ? v_chunk() : 0};
      if (!fill_with(turns ? p_.v_turned : p_.v, place, landed != nullptr ? landed + i : nullptr))
        return false;
    }
    return true;
  }
  /// One tile of `sharers`.
  BATON_FN void ask_ahead(int n) {
    const item w = kept();
    if (C.tiles_ahead == 0 || n >= w.tiles || (n + w.row / block_rows) % base::sharers != 0) return;
    x_.elect([&] {
      for (int i = 0; i < C.k_slots(); ++i) x_.ask_for_box(p_.k, k_place(n, i));
      for (int i = 0; i < C.v_slots(); ++i)
        x_.ask_for_box(p_.v, {0, keys_of(n, 0) + i * v_slot_keys, v_chunk(), 0, 0});
    });
  }
};

/// A weight of 0 would make no numbers of what are none: so keys that the item does not see, whatever stands there, become zeros
/// between the landing of V's first or last tile and the consumers' word.
template <config C, class X>
class clear_role {
 public:
  BATON_FN explicit clear_role(X& x) : x_{x} {}

  BATON_FN void run() {
    const int tiles = kept().tiles;
    if (!clear_tile(0) || tiles == 1) return;
    clear_tile(tiles - 1);
  }

 private:
  BATON_FN item kept() { return kept_item<C>(x_); }
  BATON_FN bool clear_tile(int n) {
    const item w = kept();
    if (!w.has_unseen(n, C.tile_keys())) return true;
    const int before = smaller(n + 2, w.tiles) * C.k_slots() + n * C.v_slots();  // pieces
    BATON_ROLLED
    for (int i = 0; i < C.v_slots(); ++i) {
      if (!x_.template mbarrier_wait<scope::block>(landed_of<C>(x_, n) + i, parity::even,
                                                   {.where = "attention.v_landed"}))
        return false;
      const int slot = (before + i) % C.slots, rank = i < 2 ? x_.cluster_block() : 1 - x_.cluster_block();
      clear(slot_tile<C>(x_, slot), w.tile_of(n) * C.tile_keys() + rank * block_keys + i % 2 * v_slot_keys);
      x_.sync_warp();
      x_.elect(
          [&] { x_.template mbarrier_arrive<scope::block>(block_plan<C>{}.slot_barriers(x_) + slot, 1); });
    }
    return true;
  }
  /// Of a slot whose first key is `key` of the sequence.
  BATON_FN void clear(const tile<C>& v, int key) {
    constexpr int chunks = tile<C>::chunks, tiles = slot_rows / v_slot_keys;
    const item w = kept();
    x_.each_lane([&](int lane) {
      BATON_ROLLED
      for (int row = 0; row < v_slot_keys; ++row) {
        if (key + row >= w.first_key && key + row < w.end_key) continue;
        x_.write(v.from_row(lane / chunks % tiles * v_slot_keys).chunk(row, lane % chunks), vec16{});
      }
      x_.fence_proxy_async();
    });
  }

  X& x_;
};

}  // namespace baton::attention_kernels
