#pragma once
// How a consumer warp's 16 rows of C leave: through places in shared memory in turn, some columns at a time. 16-bit ones
// that find no free place stay in registers, rounded, until the next tile's products run, and are stored beside them. Where tiles
// are told of, by plain stores, after which a place is free at once.
#include <bit>
#include <type_traits>

#include "base/block_format.hpp"
#include "kernels/gemm/tiles.hpp"

namespace baton::gemm_kernels {

/// A warp's rows of a tile.
struct result_rows {
  int row, rows, column;  // `rows`: how many of the 16 the group has; more is all, 0 or less is none
};

template <config C, class X>
class results {
  using out_type = out_value<C>;
  using tile_type = swizzled_tile<out_type>;
  using accumulators = typename X::template group_accumulators<C.columns>;
  static constexpr int parts = C.result_columns() / C.out_columns();
  /// Of groups with an epilogue one is kept: looking for a tile while products run takes the registers of another.
  static constexpr int parts_kept = C.float_out || C.block_scaled() ? 0
                                    : C.epilogue && C.grouped       ? smaller(parts - C.places, 1)
                                                                    : parts - C.places;
  static constexpr int first_kept = (parts - parts_kept) * C.out_columns();

 public:
  BATON_FN results(X& x, const params& p, int number)
      : x_{x},
        p_{p},
        places_{tile_type{block_plan<C>{}.results(x)->bytes}.from_row(
            (number * group_warps + x.warp_of_group()) * C.places * group_warp_rows)} {}

  /// The rows of a tile: the last ones of them are stored by and by.
  BATON_FN void take(const accumulators& acc, const result_rows& rows) {
    store_rest();
    rows_ = rows;
    if constexpr (C.e4m3_out()) choose_scales(acc);
    BATON_UNROLL
    for (int i = 0; i < parts - parts_kept; ++i) store(acc, i * C.out_columns(), i);
    if constexpr (parts_kept > 0) x_.round(acc, first_kept, kept_);
    left_ = parts_kept;
  }

  /// The next part of those that were kept.
  BATON_FN void store_part() {
    if constexpr (parts_kept > 0) {
      if (left_ == 0) return;
      BATON_UNROLL
      for (int i = 0; i < parts_kept; ++i)
        if (left_ == parts_kept - i) store(kept_, i * C.out_columns(), parts - parts_kept + i);
      --left_;
    }
  }

  /// All that were kept: their registers are free.
  BATON_FN void store_rest() {
    BATON_ROLLED
    while (left_ > 0) store_part();
  }

  BATON_FN void finish() {
    store_rest();
    if constexpr (!C.told()) x_.bulk_wait_read();
  }

 private:
  /// Columns `first` and on of `from`, which are a part of the tile's.
  template <class Rows>
  BATON_FN void store(const Rows& from, int first, int part) {
    if (C.grouped && rows_.rows <= 0) return;
    const tile_type place = places_.from_row(part % C.places * group_warp_rows);
    const int column = rows_.column + part * C.out_columns();
    if constexpr (!C.told()) x_.template bulk_wait_read<C.places - 1>();
    if constexpr (C.e4m3_out())
      x_.put_rows(place, from, first, inverse_);
    else
      x_.put_rows(place, from, first);
    if constexpr (C.told()) return store_plainly(place, column);
    x_.each_lane([&](int) { x_.fence_proxy_async(); });
    x_.sync_warp();
    if (!C.grouped || rows_.rows >= group_warp_rows) {
      x_.elect([&] {
        x_.tensor_store(p_.c, {column, rows_.row}, place.at);
        x_.bulk_commit();
      });
    } else {
      copy_rows(place, column);
    }
  }

  /// Without the copy engine, whose reads the next rows would have to wait for.
  BATON_FN void store_plainly(const tile_type& place, int column) {
    static_assert(!C.told() || C.places == 1);
    constexpr int rows_at_once = warp_lanes / tile_type::chunks, times = group_warp_rows / rows_at_once;
    x_.sync_warp();
    if (rows_.rows < group_warp_rows || column + C.out_columns() > p_.n) return copy_rows(place, column);
    x_.each_lane([&](int lane) {
      const int row = lane / tile_type::chunks, chunk = lane % tile_type::chunks;
      out_type* const to = static_cast<out_type*>(p_.c_rows) + std::int64_t{rows_.row + row} * p_.n + column +
                           chunk * tile_type::chunk_values;
      vec16 values[times];
      BATON_UNROLL
      for (int i = 0; i < times; ++i) values[i] = x_.read(place.chunk(row + i * rows_at_once, chunk));
      BATON_UNROLL
      for (int i = 0; i < times; ++i)
        x_.write(reinterpret_cast<vec16*>(to + std::int64_t{i * rows_at_once} * p_.n), values[i]);
    });
    x_.sync_warp();
  }

  /// A tile's columns are a block of C that shares a scale, as token_format says of blockwise_fp8.
  BATON_FN void choose_scales(const accumulators& acc) {
    using format = block_format<token_format::blockwise_fp8>;
    const auto most = x_.largest_of_rows(acc, smaller(p_.n - rows_.column, C.result_columns()));
    const auto scale_of = [](float largest) {
      return format::scale_of(std::bit_cast<std::uint32_t>(largest), {});
    };
    inverse_ = x_.mapped(most, [&](float largest) { return scale_of(largest).inverse; });
    float* const scales = p_.c_scales + std::int64_t{rows_.column / C.result_columns()} * p_.m + rows_.row;
    x_.each_row(most, [&](int row, float largest) {
      if (row < rows_.rows) x_.write(scales + row, scale_of(largest).stored);
    });
  }

  /// The end of a group: the rows behind it are another's. Or, without the copy engine, of columns.
  BATON_FN void copy_rows(const tile_type& place, int column) {
    if constexpr (!C.told())
      x_.elect([&] { x_.bulk_commit(); });  // of nothing: as many groups of copies as places
    each_chunk([&](int i) {
      const int row = i / tile_type::chunks, chunk = i % tile_type::chunks;
      const int at = column + chunk * tile_type::chunk_values;
      if (at >= p_.n) return;
      const std::int64_t index = std::int64_t{rows_.row + row} * p_.n + at;
      x_.write(reinterpret_cast<vec16*>(static_cast<out_type*>(p_.c_rows) + index),
               x_.read(place.chunk(row, chunk)));
    });
    x_.sync_warp();
  }

  /// f(i) of each of the rows' chunks. In gated products with an epilogue in a loop that nobody unrolls: what each step's lanes
  /// have would be kept in registers while products run.
  template <class F>
  BATON_FN void each_chunk(F f) {
    const int chunks = (C.told() ? smaller(rows_.rows, group_warp_rows) : rows_.rows) * tile_type::chunks;
    if constexpr (C.epilogue && C.gated) {
      BATON_ROLLED
      for (int first = 0; first < chunks; first += warp_lanes)
        x_.each_lane([&](int lane) {
          if (first + lane < chunks) f(first + lane);
        });
    } else {
      x_.each(chunks, f);
    }
  }

  X& x_;
  const params& p_;
  tile_type places_;
  result_rows rows_{};
  typename X::template group_results<larger(parts_kept, 1) * C.out_columns(),
                                     std::conditional_t<(parts_kept > 0), out_type, bfloat16>>
      kept_;
  typename X::row_values inverse_{};  // of the scales of e4m3
  int left_ = 0;
};

}  // namespace baton::gemm_kernels
