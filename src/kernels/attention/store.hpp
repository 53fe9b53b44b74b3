#pragma once
// How O leaves: rounded, through tiles of the group's Q, whose products are done. Where an item has all of a warp's 16 rows the
// copy engine takes them from there, else lanes do, as whole rows of 128 bytes.
#include "kernels/attention/items.hpp"

namespace baton::attention_kernels {

/// A warp's way out: of its 16 rows.
template <config C, class X>
class store_role {
  using T = value<C>;
  using row_values = typename X::row_values;

 public:
  BATON_FN store_role(X& x, const params& p, const consumer_item& own)
      : x_{x}, p_{p}, w_{kept_item<C>(x)}, first_{own.first_row}, group_{own.group()} {}

  /// All warps of the group, when its products are done.
  template <class Sums>
  BATON_FN void store(const Sums& o) {
    x_.sync_groups(1 + group_, 1);  // no warp's product reads Q any more
    BATON_UNROLL
    for (int i = 0; i < chunks; ++i) x_.put_rows(place(i), o, i * tile<C>::columns);
    if (first_ + group_warp_rows <= w_.rows) return store_boxes();
    x_.sync_warp();
    for (int i = 0; i < chunks; ++i)
      if (has(i)) each_chunk(i, [&](int row, int chunk) { return x_.read(place(i).chunk(row, chunk)); });
  }
  BATON_FN void store_zeros() {
    for (int i = 0; i < chunks; ++i)
      if (has(i)) each_chunk(i, [](int, int) { return vec16{}; });
  }
  BATON_FN void store_lse(const row_values& values) {
    if (p_.lse == nullptr || x_.cluster_block() != 0) return;
    float* at = lse_of<C>(p_, w_) + first_;
    x_.each_row(values, [&](int row, float v) {
      if (first_ + row < w_.rows) x_.write(at + row, v);
    });
  }

 private:
  static constexpr int chunks = C.block_columns() / tile<C>::columns;

  /// The warp's rows of chunk `i`, on their way.
  BATON_FN tile<C> place(int i) {
    return q_tile<C>(x_, group_, i).from_row(x_.warp_of_group() * group_warp_rows);
  }
  /// All of the warp's rows, by the copy engine: the block may end when that has read them.
  BATON_FN void store_boxes() {
    x_.fence_proxy_async();
    x_.sync_warp();
    x_.elect([&] {
      const int first = x_.cluster_block() * chunks + (C.pads() ? 0 : w_.head * C.chunks());
      BATON_UNROLL
      for (int i = 0; i < chunks; ++i)
        x_.box_store(p_.out_boxes, {0, w_.row + first_, first + i, C.pads() ? w_.head : 0, 0}, place(i).at);
      x_.bulk_commit();
    });
    x_.template bulk_wait_read<0>();  // of the lane that asked; the others have none
  }
  /// Of a head.
  BATON_FN int columns() const { return C.pads() ? p_.head_dim : C.head_dim; }
  BATON_FN bool has(int i) const { return !C.pads() || i * tile<C>::columns < columns(); }
  /// value(row, chunk) of the 64 columns number `i`, to where they belong.
  template <class Value>
  BATON_FN void each_chunk(int i, Value value) {
    T* to = static_cast<T*>(p_.out) + (w_.row + first_) * p_.out_row + w_.head * columns() +
            x_.cluster_block() * C.block_columns() + i * tile<C>::columns;
    x_.each(group_warp_rows * tile<C>::chunks, [&](int n) {
      const int row = n / tile<C>::chunks, chunk = n % tile<C>::chunks;
      if (first_ + row < w_.rows)
        x_.write(reinterpret_cast<vec16*>(to + row * p_.out_row + chunk * tile<C>::chunk_values),
                 value(row, chunk));
    });
  }

  X& x_;
  const params& p_;
  item w_;
  int first_, group_;
};

}  // namespace baton::attention_kernels
