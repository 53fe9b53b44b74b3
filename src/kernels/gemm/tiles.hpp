#pragma once
// Which tile of C a block computes when. Roles ask alike and get the same answers.
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

/// Of one product.
template <config C>
class dense_tiles {
 public:
  template <class X>
  BATON_FN dense_tiles(X&, const params& p) : rows_{p.m}, walk_{walk_of<C>(p.m, p.n)} {}

  template <class X>
  BATON_FN void build(X&) const {}
  template <class X>
  BATON_FN int size(X&) const {
    return walk_.size();
  }
  template <class X>
  BATON_FN tile at(X& x, int index) const {
    return tile_of<C>(x.cluster_block(), walk_.at(index), 0, rows_, 0);
  }

 private:
  int rows_;
  tile_walk walk_;
};

/// Of a product for each group of rows, group after group, as the device says where they are: bounded before it is followed.
template <config C>
class group_tiles {
 public:
  template <class X>
  BATON_FN group_tiles(X& x, const params& p) : p_{p}, before_{block_plan<C>{}.tiles(x)} {}

  /// All warps of the block; a barrier of the block has to follow.
  template <class X>
  BATON_FN void build(X& x) const {
    x.block_each(p_.groups, [&](int g) {
      const range rows = rows_of(x, g);
      x.write(before_ + g + 1, smaller(walk_of<C>(rows.count, p_.n).size(), 0x7fffffff / p_.groups));
    });
    x.sync_block();
    if (x.warp() == 0) sum_up(x, before_, p_.groups);
  }
  template <class X>
  BATON_FN int size(X& x) const {
    return x.from_one([&] { return x.read(before_ + p_.groups); });
  }
  template <class X>
  BATON_FN tile at(X& x, int index) const {
    return x.from_one([&] {
      const int g = last_not_above(x, before_, p_.groups, index);
      const range rows = rows_of(x, g);
      const tile_walk::place at = walk_of<C>(rows.count, p_.n).at(index - x.read(before_ + g));
      return tile_of<C>(x.cluster_block(), at, rows.first, rows.count, g * p_.n);
    });
  }

 private:
  struct range {
    int first, count;
  };
  /// Those of group g for which there is memory.
  template <class X>
  BATON_FN range rows_of(X& x, int g) const {
    const int said = p_.firsts == nullptr ? g * p_.stride : x.read(p_.firsts + g);
    const int first = smaller(larger(said, 0), p_.m);
    return {first, smaller(larger(x.read(p_.counts + g), 0), p_.m - first)};
  }

  const params& p_;
  std::int32_t* before_;
};

template <config C>
struct tiles_of {
  using type = dense_tiles<C>;
};
template <config C>
requires(C.grouped) struct tiles_of<C> {
  using type = group_tiles<C>;
};

}  // namespace baton::gemm_kernels
