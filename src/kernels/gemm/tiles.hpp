#pragma once
// Which tile of C a block computes when. Roles ask alike and get the same answers.
#include "base/bits.hpp"
#include "exec/collectives.hpp"
#include "kernels/gemm/params.hpp"

namespace baton::gemm_kernels {

/// What a block computes at a time.
struct tile {
  int row,
      rows;  // the first row of A and of C; how many the group has from it on, 0 or less where none are left
  int column, b_row;  // the first column of C, and the row of B that makes it
};

template <config C>
BATON_FN tile tile_of(int cluster_block, tile_walk::place at, int first_row, int rows, int first_b_row) {
  const int down = (at.row * C.cluster + cluster_block) * block_m, column = at.column * C.result_columns();
  return {first_row + down, rows - down, column, first_b_row + column};
}

/// Blocks that compute tiles together.
template <config C, class X>
BATON_FN int tile_blocks(X& x) {
  return C.split ? x.cluster_blocks() : C.cluster;
}

/// Which of a cluster's blocks, one below the other, this is: 0 where they share out k, and so have the same rows.
template <config C, class X>
BATON_FN int row_block(X& x) {
  return C.split ? 0 : x.cluster_block();
}

/// Of one product: cluster i takes tiles i, i + clusters, ...
template <config C>
class dense_tiles {
 public:
  template <class X>
  BATON_FN dense_tiles(X&, const params& p) : rows_{p.m}, walk_{walk_of<C>(p.m, p.n)} {}

  template <class X>
  BATON_FN void build(X&) const {}

  class cursor {
   public:
    template <class X>
    BATON_FN cursor(X& x, const dense_tiles& of) : of_{of}, index_{x.block() / tile_blocks<C>(x)} {}
    /// The next tile, if there is one.
    template <class X>
    BATON_FN void look(X& x, tile& next) const {
      if (is_at(next)) next = tile_of<C>(row_block<C>(x), of_.walk_.at(index_), 0, of_.rows_, 0);
    }
    BATON_FN bool is_at(const tile&) const { return index_ < of_.walk_.size(); }
    template <class X>
    BATON_FN void step(X& x) {
      index_ += x.num_blocks() / tile_blocks<C>(x);
    }

   private:
    const dense_tiles& of_;
    int index_;
  };

 private:
  int rows_;
  tile_walk walk_;
};

/// Rows of a group.
struct group_range {
  int first, count;
};
/// Those of group g for which there is memory, as the device says where they are: bounded before it is followed.
template <class X>
BATON_FN group_range rows_of_group(X& x, const params& p, int g) {
  const int said = p.firsts == nullptr ? g * p.stride : x.read(p.firsts + g);
  const int first = smaller(larger(said, 0), p.m);
  return {first, smaller(larger(x.read(p.counts + g), 0), p.m - first)};
}

/// Of a product for each group of rows, group after group: cluster i takes tiles i, i + clusters, ...
template <config C>
class groups_in_order {
 public:
  template <class X>
  BATON_FN groups_in_order(X& x, const params& p) : p_{p}, before_{block_plan<C>{}.tiles(x)} {}

  /// All warps of the block; a barrier of the block has to follow.
  template <class X>
  BATON_FN void build(X& x) const {
    x.block_each(p_.groups, [&](int g) {
      const group_range rows = rows_of_group(x, p_, g);
      x.write(before_ + g + 1, smaller(walk_of<C>(rows.count, p_.n).size(), 0x7fffffff / p_.groups));
    });
    x.sync_block();
    if (x.warp() == 0) sum_up(x, before_, p_.groups);
  }

  class cursor {
   public:
    template <class X>
    BATON_FN cursor(X& x, const groups_in_order& of)
        : of_{of}, index_{x.block() / C.cluster}, size_{x.from_one([&] {
            return x.read(of.before_ + of.p_.groups);
          })} {}
    template <class X>
    BATON_FN void look(X& x, tile& next) const {
      if (is_at(next)) next = of_.at(x, index_);
    }
    BATON_FN bool is_at(const tile&) const { return index_ < size_; }
    template <class X>
    BATON_FN void step(X& x) {
      index_ += x.num_blocks() / C.cluster;
    }

   private:
    const groups_in_order& of_;
    int index_, size_;
  };

 private:
  template <class X>
  BATON_FN tile at(X& x, int index) const {
    return x.from_one([&] {
      const int g = last_not_above(x, before_, p_.groups, index);
      const group_range rows = rows_of_group(x, p_, g);
      const tile_walk::place at = walk_of<C>(rows.count, p_.n).at(index - x.read(before_ + g));
      return tile_of<C>(x.cluster_block(), at, rows.first, rows.count, g * p_.n);
    });
  }

  const params& p_;
  std::int32_t* before_;  // tiles of the groups before each
};

/// None is left.
inline constexpr tile no_tile{0, -0x7fffffff - 1, 0, 0};

/// The same, dealt out evenly.
///
/// A group's last rows may fill no more than half a tile, which takes less time than others. So whole tiles and such parts are
/// dealt out apart, the nth to cluster n mod clusters: each gets as many of both as any other, give or take one. A cluster takes
/// its own in the order of groups, so that those that read the same matrix run at about the same time. About: who computes a
/// part may come when the matrix is gone from L2. Where products of e4m3 take no longer than reading matrices, or a tile is soon
/// done beside finding the next one, all are whole ones, which is to deal them out in order.
template <config C>
class group_tiles {
  static constexpr int rows_of_tile = block_m * C.cluster;
  /// Of a group, on average, from which on its products take longer than its matrix: by rates 155 on an H200, 195 on an H100.
  static constexpr int many_rows = 192;
  /// Slots of a tile that is not gated: with 56 it is better to set parts apart, with 16 it is not.
  static constexpr int many_steps = 32;

 public:
  template <class X>
  BATON_FN group_tiles(X& x, const params& p)
      : p_{p}, before_{block_plan<C>{}.tiles(x)}, parts_{block_plan<C>{}.parts(x)} {}

  /// All warps of the block; a barrier of the block has to follow.
  template <class X>
  BATON_FN void build(X& x) const {
    const int warp = warp_of(x);
    const bool apart = sets_parts_apart(x);
    for (int word = warp; word * warp_lanes < p_.groups; word += x.num_warps()) {
      typename X::template lanes<bool> has_part;
      x.each_lane([&](int lane) {
        const int g = word * warp_lanes + lane, rows = g < p_.groups ? rows_of_group(x, p_, g).count : 0;
        has_part[lane] = apart && whole(rows) * rows_of_tile < rows;
        if (g < p_.groups)
          x.write(before_ + g + 1, smaller(whole(rows, apart) * columns(), 0x7fffffff / p_.groups));
      });
      const std::uint32_t bits = x.ballot(has_part);
      x.elect([&] { x.write(parts_ + word, bits); });
    }
    x.sync_block();
    if (warp == 0) sum_up(x, before_, p_.groups);
    if (warp == 1) x.elect([&] { x.write(parts_ + most_groups / warp_lanes, count_parts(x)); });
  }

  /// Of a warp. What it has come to lies in shared memory: registers are for sums.
  class cursor {
   public:
    /// Parts begin behind the last whole tile: clusters that have one less of these get one more of those.
    template <class X>
    BATON_FN cursor(X& x, const group_tiles& of) : of_{of} {
      tile_cursor* const at = cell(x);
      x.elect([&] {
        const int own = x.block() / C.cluster, clusters = x.num_blocks() / C.cluster;
        const int after = of.whole_tiles(x) % clusters;
        x.write(at, tile_cursor{own, own - after + (own < after ? clusters : 0)});
      });
      x.sync_warp();
    }
    /// The next tile, or none. It is not looked for again.
    template <class X>
    BATON_FN void look(X& x, tile& next) const {
      tile_cursor* const at = cell(x);
      next = x.from_one([&] { return of_.take(x, at); });
      x.sync_warp();
    }
    BATON_FN bool is_at(const tile& next) const { return next.rows != no_tile.rows; }
    template <class X>
    BATON_FN void step(X&) const {}

   private:
    template <class X>
    BATON_FN static tile_cursor* cell(X& x) {
      return block_plan<C>{}.cursors(x) + warp_of(x);
    }
    const group_tiles& of_;
  };

 private:
  /// From a broadcast, so that the compiler knows it uniform, and keeps it in no register of each thread.
  template <class X>
  BATON_FN static int warp_of(X& x) {
    return x.from_one([&] { return x.warp(); });
  }
  BATON_FN int columns() const { return walk_of<C>(1, p_.n).columns; }
  /// Tiles down that count as whole.
  BATON_FN static int whole(int rows, bool parts_are_apart = true) {
    return (rows + (parts_are_apart ? rows_of_tile / 2 : rows_of_tile) - 1) / rows_of_tile;
  }
  template <class X>
  BATON_FN bool sets_parts_apart(X& x) const {
    if constexpr (!C.block_scaled()) return true;
    if (!C.gated && p_.k < many_steps * block_k<C>) return false;
    typename X::template lanes<int> beyond;  // rows, so many that no sum of them overflows
    x.each_lane([&](int lane) {
      beyond[lane] = 0;
      for (int g = lane; g < p_.groups; g += warp_lanes) {
        const int rows = rows_of_group(x, p_, g).count;
        if (rows > 0) beyond[lane] += smaller(rows, 0x7fffffff / most_groups) - many_rows;
      }
    });
    inclusive_scan(x, beyond);
    return x.broadcast(beyond, warp_lanes - 1) >= 0;
  }

  /// What follows is done by one lane.
  template <class X>
  BATON_FN int whole_tiles(X& x) const {
    return x.read(before_ + p_.groups);
  }
  template <class X>
  BATON_FN int part_tiles(X& x) const {
    return columns() * static_cast<int>(x.read(parts_ + most_groups / warp_lanes));
  }
  template <class X>
  BATON_FN std::uint32_t count_parts(X& x) const {
    std::uint32_t count = 0;
    for (int word = 0; word * warp_lanes < p_.groups; ++word) count += count_bits(x.read(parts_ + word));
    return count;
  }

  /// The next tile, whole or a part: that of the earlier group.
  template <class X>
  BATON_FN tile take(X& x, tile_cursor* at) const {
    tile_cursor now = x.read(at);
    const int of_whole =
        now.whole < whole_tiles(x) ? last_not_above(x, before_, p_.groups, now.whole) : most_groups;
    const int of_part = now.part < part_tiles(x) ? group_of_part(x, now.part / columns()) : most_groups;
    const int g = smaller(of_whole, of_part), clusters = x.num_blocks() / C.cluster;
    if (g == most_groups) return no_tile;
    const group_range rows = rows_of_group(x, p_, g);
    const int down = whole(rows.count, !C.block_scaled() || part_tiles(x) > 0);
    tile_walk::place place{down, now.part % columns()};
    if (of_whole <= of_part) {
      place = walk_of<C>(down * rows_of_tile, p_.n).at(now.whole - x.read(before_ + g));
      now.whole += clusters;
    } else {
      now.part += clusters;
    }
    x.write(at, now);
    return tile_of<C>(x.cluster_block(), place, rows.first, rows.count, g * p_.n);
  }
  /// Of the nth group that has a part.
  template <class X>
  BATON_FN int group_of_part(X& x, int nth) const {
    int word = 0;
    std::uint32_t bits = x.read(parts_);
    for (int here = count_bits(bits); here <= nth; here = count_bits(bits)) {
      nth -= here;
      bits = x.read(parts_ + ++word);
    }
    for (; nth > 0; --nth) bits &= bits - 1;
    return word * warp_lanes + lowest_bit(bits);
  }

  const params& p_;
  std::int32_t* before_;  // whole tiles of the groups before each; see block_plan
  std::uint32_t* parts_;
};

template <config C>
struct tiles_of {
  using type = dense_tiles<C>;
};
template <config C>
requires(C.grouped) struct tiles_of<C> {
  using type = std::conditional_t<C.evenly, group_tiles<C>, groups_in_order<C>>;
};

}  // namespace baton::gemm_kernels
