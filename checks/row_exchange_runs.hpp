#pragma once
// What warps of a pair of blocks do with row_swap and tile_swap in wide-head attention (kernels/attention/paired.hpp): in its
// order, with values that tell whose they are and of which tile, and without the ring of slots. Products with the other block's
// tile are bulk copies of it out of the block: they read it at their own time, and see stores past a proxy fence only.
#include <cstddef>
#include <cstdint>

#include "checks/planted_context.hpp"
#include "protocol/row_exchange.hpp"
#include "sim/check.hpp"

namespace baton::checks {

inline constexpr site rows_given = "rows.given", tile_given = "tile.given", tile_free = "tile.free";

/// What the order of the verbs has wrong, where that is not a verb.
enum class swap_flaw : std::uint8_t {
  none,
  one_place,          // both places of row values are the first one
  freed_unawaited,    // a tile is released while products read it
  stored_unacquired,  // a tile is stored before its place has been acquired
  freed_by_rows,      // tiles are left out: nothing but row values tells that a place of theirs is free
  unfenced,           // barriers are initialised, and not made known
  unmet,              // nobody meets at the end
  leaves,             // the same, and the last row values and the last tile are left there
  keeps_silent,       // who gave up does not report it
};

struct swap_bug {
  planted_bug bug = {};
  swap_flaw flaw = swap_flaw::none;
};

/// How many groups of consumers a block has, how many warps each of them, how many tiles there are.
struct swap_shape {
  int groups, group_warps, tiles;

  int warps() const { return groups * group_warps; }
  static constexpr int halves = 2;  // of a tile: what one product reads
  int half_bytes() const { return group_warps * static_cast<int>(sizeof(vec16)); }
  int tile_bytes() const { return halves * half_bytes(); }

  std::size_t barrier_bytes() const {
    const int barriers = 2 * groups + 2 * warps();
    return static_cast<std::size_t>(barriers) * sizeof(mbarrier);
  }
  std::size_t rows_at() const { return barrier_bytes() + static_cast<std::size_t>(groups * tile_bytes()); }
  std::size_t shared_bytes() const {
    return rows_at() + static_cast<std::size_t>(2 * warps() * group_warp_rows) * sizeof(float);
  }
};

/// A context that has the group verbs of row values and of groups, on the lanes that have them on a GPU.
class group_of_rows : public planted<check::context> {
 public:
  struct row_values {
    float at[group_warp_rows];
  };
  group_of_rows(const check::context& x, const planted_bug& bug, const cell_names& names, int group_warps)
      : planted{x, bug, names}, group_warps_{group_warps} {}

  int group() { return warp() / group_warps_; }
  int warp_of_group() { return warp() % group_warps_; }

  template <class F>
  void each_row(const row_values& values, F f) {
    rows_of_lanes(0, [&](int row) { f(row, values.at[row]); });
  }
  void read_rows(row_values& values, const float* from) {
    for (int part = 0; part < lanes_of_row; ++part)
      rows_of_lanes(part, [&](int row) { values.at[row] = read(from + row); });
  }

 private:
  /// Of the lanes that are the `part`-th to have their rows.
  template <class F>
  void rows_of_lanes(int part, F f) {
    for (int first = 0; first < group_warp_rows; first += rows_apart)
      each_lane([&](int lane) {
        if (lane % lanes_of_row == part) f(first + lane / lanes_of_row);
      });
  }

  static constexpr int lanes_of_row = 4, rows_apart = warp_lanes / lanes_of_row;
  int group_warps_;
};

/// What products read of each tile, outside of the blocks.
struct products_of_tiles {
  std::uint32_t* words;  // [block, warp, tile, word of the tile]
  static int words_of(const swap_shape& s) {
    return s.tile_bytes() / static_cast<int>(sizeof(std::uint32_t));
  }
  std::uint32_t* of(const swap_shape& s, int block, int warp, int tile) const {
    return words + ((block * s.warps() + warp) * s.tiles + tile) * words_of(s);
  }
  static std::uint32_t value(int from_block, int group, int tile) {
    return static_cast<std::uint32_t>(1 + (tile * 2 + from_block) * 8 + group);
  }
  bool are_right(const swap_shape& s) const {
    for (int block = 0; block < 2; ++block)
      for (int warp = 0; warp < s.warps(); ++warp)
        for (int tile = 0; tile < s.tiles; ++tile)
          for (int i = 0; i < words_of(s); ++i)
            if (of(s, block, warp, tile)[i] != value(1 - block, warp / s.group_warps, tile)) return false;
    return true;
  }
};

class swapping_warp {
  using X = group_of_rows;

 public:
  swapping_warp(X& x, check::program& p, const swap_shape& s, const products_of_tiles& out, swap_flaw flaw)
      : x_{x}, program_{p}, s_{s}, out_{out}, flaw_{flaw} {}

  void run() {
    prepare();
    x_.sync_block();
    x_.meet_cluster();
    swap_rows(0);
    if (s_.tiles > 1) {
      step(1, true);
      for (int n = 2; n < s_.tiles && going_; ++n) step(n, false);
      free_tile();
    }
    make_last();
    if (!going_ && flaw_ != swap_flaw::keeps_silent) x_.report_late({.where = late_});
    if (flaw_ != swap_flaw::leaves && flaw_ != swap_flaw::unmet) x_.meet_cluster();
  }

 private:
  mbarrier* barriers() { return reinterpret_cast<mbarrier*>(x_.shared()); }
  mbarrier* tile_barrier(int which) { return barriers() + which * s_.groups; }
  mbarrier* row_barriers() { return barriers() + 2 * s_.groups; }
  std::byte* tile() {
    return x_.shared() + s_.barrier_bytes() + static_cast<std::size_t>(x_.group() * s_.tile_bytes());
  }
  row_swap<X> rows() {
    const bool alternate = flaw_ != swap_flaw::one_place;
    auto* values = reinterpret_cast<float*>(x_.shared() + s_.rows_at()) + x_.warp() * group_warp_rows;
    return {x_,
            x_.reach(1 - x_.cluster_block()),
            values,
            alternate ? s_.warps() * group_warp_rows : 0,
            row_barriers() + x_.warp(),
            s_.warps()};
  }
  tile_swap<X> tiles() {
    return {x_,
            1 - x_.cluster_block(),
            tile_barrier(0) + x_.group(),
            tile_barrier(1) + x_.group(),
            s_.tile_bytes(),
            x_.warp_of_group() == 0};
  }

  void prepare() {
    if (x_.warp() != 0) return;
    for (int g = 0; g < s_.groups; ++g) {
      x_.mbarrier_init(tile_barrier(0) + g, 1);
      x_.mbarrier_init(tile_barrier(1) + g, s_.group_warps);
    }
    for (int i = 0; i < 2 * s_.warps(); ++i) x_.mbarrier_init(row_barriers() + i, 1);
    if (flaw_ != swap_flaw::unfenced) x_.fence_mbarrier_init();
  }

  template <class Wait>
  void await(const site& where, int n, Wait wait) {
    const auto quietly = [&](mbarrier* b, parity p) {
      return x_.template mbarrier_wait_quietly<scope::cluster>(
          b, p, {.where = where, .epoch = static_cast<std::uint32_t>(n)});
    };
    if (!going_ || wait(quietly)) return;
    going_ = false;
    late_ = where;
  }
  float row_value(int block, int n, int row) {
    return static_cast<float>(((n * 2 + block) * s_.warps() + x_.warp()) * group_warp_rows + row);
  }
  void give_rows(int n) {
    X::row_values mine;
    for (int row = 0; row < group_warp_rows; ++row) mine.at[row] = row_value(x_.cluster_block(), n, row);
    rows().give(n, mine);
  }
  void take_rows(int n) {
    X::row_values other{};
    await(rows_given, n, [&](auto quietly) { return rows().take(n, other, quietly); });
    for (int row = 0; row < group_warp_rows && going_; ++row)
      program_.require(other.at[row] == row_value(1 - x_.cluster_block(), n, row),
                       "a warp takes its counterpart's values of its rows, of the tile");
  }
  void swap_rows(int n) {
    give_rows(n);
    take_rows(n);
  }
  bool has_tiles() const { return flaw_ != swap_flaw::freed_by_rows; }

  void acquire(int n) {
    await(tile_free, n, [&](auto quietly) { return tiles().acquire(n, quietly); });
  }
  void send(int n) {
    if (!has_tiles()) return;
    if (flaw_ != swap_flaw::stored_unacquired) acquire(n);
    const std::uint32_t v = products_of_tiles::value(x_.cluster_block(), x_.group(), n);
    auto* chunks = reinterpret_cast<vec16*>(tile());
    x_.each_lane([&](int lane) {
      if (lane >= swap_shape::halves) return;
      x_.store_counted(x_.reach(1 - x_.cluster_block()), chunks + lane * s_.group_warps + x_.warp_of_group(),
                       vec16{{v, v, v, v}}, tiles().filled());
    });
    if (flaw_ == swap_flaw::stored_unacquired) acquire(n);
  }
  void await_tile(int n) {
    if (has_tiles()) await(tile_given, n, [&](auto quietly) { return tiles().await(n, quietly); });
  }
  /// With half `i` of the other's tile. It runs on until it is awaited.
  void start_product(int n, int i) {
    if (!has_tiles() || !going_) return;
    std::byte* to = reinterpret_cast<std::byte*>(out_.of(s_, x_.cluster_block(), x_.warp(), n));
    x_.elect([&] {
      x_.bulk_store(to + i * s_.half_bytes(), tile() + i * s_.half_bytes(), s_.half_bytes());
      x_.bulk_commit();
    });
  }
  void free_tile() {
    if (!has_tiles()) return;
    if (flaw_ != swap_flaw::freed_unawaited) x_.bulk_wait();
    tiles().release();
    if (flaw_ == swap_flaw::freed_unawaited) x_.bulk_wait();
  }
  void step(int n, bool first) {
    if (!first) free_tile();
    send(n - 1);
    give_rows(n);
    await_tile(n - 1);
    start_product(n - 1, 0);
    take_rows(n);
    start_product(n - 1, 1);
  }
  void make_last() {
    const int n = s_.tiles - 1;
    send(n);
    give_rows(n + 1);
    if (flaw_ == swap_flaw::leaves) return;
    await_tile(n);
    start_product(n, 0);
    start_product(n, 1);
    take_rows(n + 1);
    x_.bulk_wait();
  }

  X& x_;
  check::program& program_;
  const swap_shape& s_;
  products_of_tiles out_;
  swap_flaw flaw_;
  bool going_ = true;
  site late_ = {};
};

}  // namespace baton::checks
