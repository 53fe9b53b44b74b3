#pragma once
// Two loading warps take turns with the ring's slots: one has Q and, for each tile of keys, from the first to the last, K, the
// other V one tile behind it. And the clearing warp, which rids V of keys that no row of the item sees.
#include "base/constant.hpp"
#include "kernels/attention/items.hpp"
#include "kernels/attention/waits.hpp"

namespace baton::attention_kernels {

/// What a loading warp keeps of its item: the same in all lanes, and known to be, so that few statements lie between a slot
/// that becomes free and the copies into it. Each of them delays all that comes behind: reading the item anew for every slot
/// costs a tenth of the kernel's time.
struct loaded_item {
  int rank;               // of the block
  int kv_head, row, key;  // as in item
  int first_tile, tiles;  // the sequence's number of the first
  tile_numbers plain;
  bool clears_first, clears_last;

  /// Whether V of a tile is to be cleared of what nobody sees.
  BATON_FN bool clears(int number) const {
    return (number == 0 && clears_first) || (number == tiles - 1 && clears_last);
  }
};
template <config C, class X>
BATON_FN loaded_item loaded_item_of(X& x) {
  const item w = kept_item<C>(x);
  return {.rank = known_to_all(x, x.cluster_block()),
          .kv_head = known_to_all(x, w.kv_head),
          .row = known_to_all(x, w.row),
          .key = known_to_all(x, w.key),
          .first_tile = known_to_all(x, w.tile_of(0)),
          .tiles = known_to_all(x, w.tiles),
          .plain = {known_to_all(x, w.plain.first), known_to_all(x, w.plain.end)},
          .clears_first = known_to_all(x, w.has_unseen(0, C.tile_keys())) != 0,
          .clears_last = known_to_all(x, w.has_unseen(w.tiles - 1, C.tile_keys())) != 0};
}

/// Where Q's rows of a group begin in their map, of the head's chunk of that number.
template <config C>
BATON_FN box_place q_place(const item& w, int group, int of_head) {
  const int chunk = (C.pads() ? 0 : w.head * C.chunks()) + of_head;
  return {0, w.row + group * group_rows, chunk, C.pads() ? w.head : 0, 0};
}
/// What fills the first slots of a ring, of which none has been filled: Q on its way into registers, K of the first tile. It is
/// for the block itself alone, so nobody has to be met before, and on its way while a pair meets and roles begin.
template <config C, class X>
BATON_FN void load_first(X& x, const params& p, const item& w) {
  x.elect([&] {
    const int key = w.key + w.tile_of(0) * C.tile_keys() + x.cluster_block() * C.block_keys();
    BATON_ROLLED
    for (int i = 0; i < C.first_slots(); ++i) {
      mbarrier* filled = block_plan<C>{}.slot_barriers(x) + i;
      const tile<C> slot = slot_tile<C>(x, i);
      x.template mbarrier_arrive_expect<scope::block>(filled, slot_bytes);
      if (i < C.q_slots()) {
        for (int g = 0; g < consumer_groups; ++g)
          x.box_load(slot.from_row(g * group_rows).at, p.q, q_place<C>(w, g, i), filled);
      } else {
        const int chunk = w.kv_head * C.chunks() + C.slot_chunks() * (i - C.q_slots());
        x.box_load(slot.at, p.k, {0, key, chunk, 0, 0}, filled);
      }
    }
  });
  x.sync_warp();  // the cluster is met by all of a warp's lanes at once
}

/// What loading warps do wherever keys lie.
template <config C, class X>
class load_base {
 protected:
  BATON_FN load_base(X& x, const kernel_params<C>& p)
      : x_{x},
        p_{p},
        own_{loaded_item_of<C>(x)},
        slots_{slot_pipeline<C>{block_plan<C>{}.slot_barriers(x)}.producer()} {}

  /// K of all tiles by load_k(n), and, before it, what goes ahead of it by ahead(n).
  template <class LoadK, class Ahead>
  BATON_FN void run_k(LoadK load_k, Ahead ahead) {
    slots_.skip(C.first_slots());
    if constexpr (C.first_slots() > C.q_slots()) {  // K of the first tile is on its way
      BATON_UNROLL
      for (int i = 0; i < C.q_pieces(); ++i) load_q(i);
    } else {
      x_.elect([&] { x_.prefetch(p_.q), x_.prefetch(p_.k); });
      load_k(constant<true>{}, 0);
    }
    BATON_ROLLED
    for (int n = 1; n < own_.tiles; ++n) {
      if (n > 1) slots_.skip(C.v_slots());
      ahead(n);
      load_k(constant<false>{}, n);
      if (this->is_late()) return;
    }
  }
  /// V of all tiles by load_v(n), of which this is the order: K 0, K 1, V 0, K 2, V 1, ... V of the last.
  template <class LoadV>
  BATON_FN void run_v(LoadV load_v) {
    x_.elect([&] {
      x_.prefetch(p_.v);
      if constexpr (C.paired()) x_.prefetch(p_.v_turned);
    });
    slots_.skip(C.q_slots() + C.k_slots());
    BATON_ROLLED
    for (int n = 0; n < own_.tiles; ++n) {
      if (n + 1 < own_.tiles) slots_.skip(C.k_slots());
      load_v(n);
      if (this->is_late()) return;
    }
  }
  /// The next slot, by boxes(slot, barrier), whose bytes are counted on its barrier, or elsewhere.
  template <class Boxes>
  BATON_FN void fill(mbarrier* landed, Boxes boxes) {
    slots_.producer_acquire_by(wait_or_note<C, scope::block>(x_, wait_of::free_slot));
    x_.elect([&] {
      mbarrier* counts = landed != nullptr ? landed : slots_.producer_mbar();
      x_.template mbarrier_arrive_expect<scope::block>(counts, slot_bytes);
      boxes(slot_tile<C>(x_, slots_.index()), counts);
    });
    slots_.step();
  }
  /// Nobody wants more.
  BATON_FN bool is_late() { return known_to_all(x_, baton::attention_kernels::is_late<C>(x_)) != 0; }
  /// Where V of a tile is counted first: elsewhere, if some of it is to be cleared.
  BATON_FN mbarrier* landed(int n) { return own_.clears(n) ? landed_of<C>(x_, n) : nullptr; }
  /// Of blocks that make other rows of the same head, each asks the cache for one share of `sharers`.
  static constexpr int sharers = 8;
  /// Which one of tile n.
  BATON_FN int share(int n) const { return (n + own_.row / block_rows) % sharers; }

  X& x_;
  const kernel_params<C>& p_;
  loaded_item own_;

  /// Slots of a pair's tile in a loop: 600 instructions fewer, and up to 1 % of its time. Heads of 128 would lose 3 % by one.
  template <int slots, class Load>
  BATON_FN static void each_slot(Load load) {
    if constexpr (C.paired()) {
      BATON_ROLLED
      for (int i = 0; i < slots; ++i) load(i);
    } else {
      BATON_UNROLL
      for (int i = 0; i < slots; ++i) load(i);
    }
  }
  /// Piece `i` of Q: of a pair both blocks have all of Q, and each loads one group's for both.
  BATON_FN void load_q(int i) {
    x_.elect([&] {
      mbarrier* filled = block_plan<C>{}.q_filled(x_) + i;
      x_.template mbarrier_arrive_expect<scope::block>(
          filled, consumer_groups * C.slot_chunks() * group_rows * tile<C>::row_bytes);
      const item w = kept_item<C>(x_);
      const auto place = [&](int g, int c) { return q_place<C>(w, g, C.q_in_registers + c); };
      for (int c = i * C.slot_chunks(); c < (i + 1) * C.slot_chunks(); ++c) {
        if constexpr (C.paired()) {
          x_.box_load_to(q_tile<C>(x_, own_.rank, c).at, p_.q, place(own_.rank, c), filled, 3u);
        } else {
          for (int g = 0; g < consumer_groups; ++g)
            x_.box_load(q_tile<C>(x_, g, c).at, p_.q, place(g, c), filled);
        }
      }
    });
  }
  /// Before piece `i` of K of the first tile.
  BATON_FN void load_q_before(int i) {
    constexpr int in_registers = C.q_in_registers / C.slot_chunks();
    if (i >= in_registers) load_q(i - in_registers);
  }

 private:
  typename slot_pipeline<C>::producer_end slots_;
};

/// Of keys in rows.
template <config C, class X>
class load_role : load_base<C, X> {
  using base = load_base<C, X>;
  using base::x_, base::p_, base::own_;

 public:
  BATON_FN load_role(X& x, const params& p)
      : base{x, p},
        first_key_{own_.key + own_.first_tile * C.tile_keys()},
        chunk_{C.pads() ? 0 : own_.kv_head * C.chunks()} {}

  BATON_FN void run_k() {
    base::run_k([&](auto first, int n) { load_k<first.value>(n); },
                [&](int n) { ask_ahead(n + C.tiles_ahead); });
  }
  BATON_FN void run_v() {
    base::run_v([&](int n) { load_v(n); });
  }

 private:
  /// The first of a tile's keys that block `rank` scores, in all sequences' keys.
  BATON_FN int keys_of(int number, int rank) const {
    return first_key_ + number * C.tile_keys() + rank * C.block_keys();
  }
  /// Where heads may be narrow they are a dimension of their own, behind whose columns there are zeros.
  BATON_FN int head() const { return C.pads() ? own_.kv_head : 0; }
  BATON_FN box_place k_place(int n, int i) const {
    return {0, keys_of(n, own_.rank), chunk_ + C.slot_chunks() * i, head(), 0};
  }
  BATON_FN int v_chunk() const { return chunk_ + own_.rank * (C.block_columns() / tile<C>::columns); }
  BATON_FN void fill_with(const tensor_map& map, const box_place& place, mbarrier* landed) {
    this->fill(landed,
               [&](const tile<C>& slot, mbarrier* counts) { x_.box_load(slot.at, map, place, counts); });
  }

  template <bool first>
  BATON_FN void load_k(int n) {
    this->template each_slot<C.k_slots()>([&](int i) { load_k_slot<first>(n, i); });
  }
  template <bool first>
  BATON_FN void load_k_slot(int n, int i) {
    if constexpr (first) this->load_q_before(i);
    fill_with(p_.k, k_place(n, i), nullptr);
  }
  BATON_FN void load_v(int n) {
    const bool turned = is_turned<C>(p_, own_.plain, n);
    mbarrier* landed = this->landed(n);
    this->template each_slot<C.v_slots()>([&](int i) { load_v_slot(n, i, turned, landed); });
  }
  BATON_FN void load_v_slot(int n, int i, bool turned, mbarrier* landed) {
    const bool turns = i >= 2 && turned;
    const int key = keys_of(n, i < 2 ? own_.rank : 1 - own_.rank) + i % 2 * C.v_slot_keys();
    const box_place place{0, key, turns ? 0 : v_chunk(), head(), turns ? v_chunk() : 0};
    fill_with(turns ? p_.v_turned : p_.v, place, landed != nullptr ? landed + i : nullptr);
  }
  /// One tile of `sharers`.
  BATON_FN void ask_ahead(int n) {
    if (C.tiles_ahead == 0 || n >= own_.tiles || this->share(n) != 0) return;
    x_.elect([&] {
      for (int i = 0; i < C.k_slots(); ++i) x_.ask_for_box(p_.k, k_place(n, i));
      for (int i = 0; i < C.v_slots(); ++i)
        x_.ask_for_box(p_.v, {0, keys_of(n, 0) + i * C.v_slot_keys(), v_chunk(), 0, 0});
    });
  }

  int first_key_;  // of the first tile, in all sequences' keys
  int chunk_;
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
    const int before = C.q_slots() + smaller(n + 2, w.tiles) * C.k_slots() + n * C.v_slots();  // pieces
    BATON_ROLLED
    for (int i = 0; i < C.v_slots(); ++i) {
      if (!x_.template mbarrier_wait<scope::block>(landed_of<C>(x_, n) + i, parity::even,
                                                   {.where = "attention.v_landed"}))
        return false;
      const int slot = (before + i) % C.slots, rank = i < 2 ? x_.cluster_block() : 1 - x_.cluster_block();
      clear(slot_tile<C>(x_, slot),
            w.tile_of(n) * C.tile_keys() + rank * C.block_keys() + i % 2 * C.v_slot_keys());
      x_.sync_warp();
      x_.elect(
          [&] { x_.template mbarrier_arrive<scope::block>(block_plan<C>{}.slot_barriers(x_) + slot, 1); });
    }
    return true;
  }
  /// Of a slot whose first key is `key` of the sequence.
  BATON_FN void clear(const tile<C>& v, int key) {
    constexpr int chunks = tile<C>::chunks, tiles = slot_rows / C.v_slot_keys();
    const item w = kept();
    x_.each_lane([&](int lane) {
      if (lane >= tiles * chunks) return;
      BATON_ROLLED
      for (int row = 0; row < C.v_slot_keys(); ++row) {
        if (key + row >= w.first_key && key + row < w.end_key) continue;
        x_.write(v.from_row(lane / chunks * C.v_slot_keys()).chunk(row, lane % chunks), vec16{});
      }
      x_.fence_proxy_async();
    });
  }

  X& x_;
};

}  // namespace baton::attention_kernels
