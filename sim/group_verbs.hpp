#pragma once
// The group verbs of the CPU machine (exec/group_mma.hpp). A product is done at some time between its start and the wait for it:
// in the product's schedule when it is waited for, so as late as it may be; in the others now and then at once. So operands that
// are not there yet, or are written over too early, are multiplied as they are then. It reads shared memory as the copy engine
// does: what was written plainly is there after a proxy fence.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <functional>
#include <type_traits>

#include "base/convert.hpp"
#include "base/dot.hpp"
#include "base/exp2.hpp"
#include "exec/group_mma.hpp"

namespace baton::sim {

/// `Context` says warp(), engine_view(), engine_is_quick(), has_given_up(), write().
template <class Context>
class group_verbs {
 public:
  template <int columns>
  struct group_accumulators {
    float at[group_warp_rows][columns];
  };

  int group() { return me().warp() / group_warps; }
  int warp_of_group() { return me().warp() % group_warps; }
  template <int>
  void leave_registers() {}
  template <int>
  void take_registers() {}

  /// `B` is swizzled_tile<T> or rows_of_k<T>.
  template <int columns, class T, class B>
  void start_product(group_accumulators<columns>& acc, const swizzled_tile<T>& a, const B& b, bool add) {
    start<T, swizzled_tile<T>::columns>(acc, b, add,
                                        [this, rows = own_rows(a)](int row, int chunk, auto& to) {
                                          read_chunk<T>(rows.chunk(row, chunk), to);
                                        });
  }
  template <int columns, class T, int k>
  void start_product(group_accumulators<columns>& acc, const tile_columns<T, k>& a, const rows_of_k<T, k>& b,
                     bool add) {
    const int first = a.first / swizzled_tile<T>::chunk_values;
    start<T, k>(acc, b, add, [this, rows = own_rows(a.tile), first](int row, int chunk, auto& to) {
      read_chunk<T>(rows.chunk(row, first + chunk), to);
    });
  }
  template <class T>
  using prepared_tile = swizzled_tile<T>;
  template <class T>
  swizzled_tile<T> prepare(const swizzled_tile<T>& tile) {
    return tile;
  }
  template <class T>
  swizzled_tile<T> prepare_anew(const swizzled_tile<T>& tile) {
    return tile;
  }
  template <int newest, class... Accumulators>
  void await_products(Accumulators&...) {
    run_all_but(newest);
  }

  template <int columns>
  void clear(group_accumulators<columns>& acc) {
    for (auto& row : acc.at)
      for (float& v : row) v = 0.0f;
  }
  template <int columns, class F>
  void each_pair(group_accumulators<columns>& acc, F f) {
    for (int r = 0; r < group_warp_rows; ++r)
      for (int c = 0; c < columns; c += 2) f(r, c, acc.at[r][c], acc.at[r][c + 1]);
  }
  struct row_values {
    float at[group_warp_rows];
  };
  void read_rows(row_values& values, const float* from) {
    for (int r = 0; r < group_warp_rows; ++r) values.at[r] = me().read(from + r);
  }
  template <int columns, int taken>
  void add_scaled(group_accumulators<columns>& acc, int first, const group_accumulators<taken>& part,
                  const row_values& by) {
    for (int r = 0; r < group_warp_rows; ++r)
      for (int c = 0; c < taken; ++c)
        acc.at[r][first + c] = std::fma(part.at[r][c], by.at[r], acc.at[r][first + c]);
  }
  template <class F>
  row_values of_rows(F f) {
    row_values values;
    for (int r = 0; r < group_warp_rows; ++r) values.at[r] = f(r);
    return values;
  }
  template <int columns>
  void scale_rows(group_accumulators<columns>& acc, const row_values& by) {
    for (int r = 0; r < group_warp_rows; ++r)
      for (float& v : acc.at[r]) v *= by.at[r];
  }
  template <class F>
  row_values mapped(row_values values, F f) {
    for (float& v : values.at) v = f(v);
    return values;
  }
  template <class F>
  void each_row(const row_values& values, F f) {
    for (int r = 0; r < group_warp_rows; ++r) f(r, values.at[r]);
  }
  template <class F>
  row_values combined(row_values a, const row_values& b, F f) {
    for (int r = 0; r < group_warp_rows; ++r) a.at[r] = f(a.at[r], b.at[r]);
    return a;
  }
  template <class F>
  bool any_row(const row_values& values, F f) {
    return std::any_of(std::begin(values.at), std::end(values.at), f);
  }
  template <int columns>
  row_values largest_values(const group_accumulators<columns>& acc) {
    return of_rows([&](int r) { return *std::max_element(acc.at[r], acc.at[r] + columns); });
  }
  struct row_sums {
    float at[group_warp_rows];
  };
  void scale_sums(row_sums& sums, const row_values& by) {
    for (int r = 0; r < group_warp_rows; ++r) sums.at[r] *= by.at[r];
  }
  row_values total(const row_sums& sums) {
    return of_rows([&](int r) { return sums.at[r]; });
  }
  template <int first, int taken, int columns>
  void exponentials(group_accumulators<columns>& acc, float scale, const row_values& low, row_sums& sums) {
    for (int r = 0; r < group_warp_rows; ++r) {
      for (int c = first; c < first + taken; ++c) {
        float& v = acc.at[r][c];
        v = exp2_quickly(std::fma(v, scale, -low.at[r]));
        sums.at[r] += v;
      }
    }
  }
  template <int columns>
  row_values largest_of_rows(const group_accumulators<columns>& acc, int taken) {
    row_values most{};
    for (int r = 0; r < group_warp_rows; ++r)
      for (int c = 0; c < std::min(taken, columns / 2); ++c)
        most.at[r] = std::max(most.at[r], std::fabs(acc.at[r][c]));  // what is no number loses
    return most;
  }
  template <int columns, class F>
  void fold_halves(group_accumulators<columns>& acc, F f) {
    for (auto& row : acc.at)
      for (int c = 0; c < columns / 2; ++c) row[c] = f(row[c], row[c + columns / 2]);
  }
  template <int columns, class T>
  struct group_results {
    T at[group_warp_rows][columns];
  };
  /// `B` is swizzled_tile<T> or rows_of_k<T, k>. The product reads A's registers when it is done.
  template <int columns, int k, class T, class B>
  void start_product(group_accumulators<columns>& acc, const group_results<k, T>& a, const B& b, bool add) {
    start<T, k>(acc, b, add, [&a](int row, int chunk, auto& to) {
      for (std::size_t i = 0; i < std::size(to); ++i)
        to[i] = static_cast<float>(a.at[row][chunk * static_cast<int>(std::size(to)) + static_cast<int>(i)]);
    });
  }
  template <class T, class F>
  void each_chunk(const group_results<32, T>& results, F f) {
    each_chunk_of(results, f, [](int column) { return column; });
  }
  template <class T, class F>
  void each_turned_chunk(const group_results<32, T>& results, F f) {
    each_chunk_of(results, f, [](int place) { return place / 2 % 4 * 8 + place / 8 * 2 + place % 2; });
  }
  template <int columns, int taken, class T>
  void round(const group_accumulators<columns>& acc, int first, group_results<taken, T>& results) {
    for (int r = 0; r < group_warp_rows; ++r)
      for (int c = 0; c < taken; ++c) results.at[r][c] = T{acc.at[r][first + c]};
  }
  template <class T>
  void take_rows(const swizzled_tile<T>& tile, group_results<swizzled_tile<T>::columns, T>& results) {
    constexpr int values = swizzled_tile<T>::chunk_values;
    for (int r = 0; r < group_warp_rows; ++r) {
      for (int chunk = 0; chunk < swizzled_tile<T>::chunks; ++chunk) {
        const vec16 bits = me().read(tile.chunk(r, chunk));
        std::memcpy(results.at[r] + chunk * values, &bits, sizeof bits);
      }
    }
  }
  /// `Rows` is group_accumulators or group_results.
  template <class T, class Rows>
  void put_rows(const swizzled_tile<T>& tile, const Rows& from, int first) {
    put_each(tile, [&](int row, int column) { return static_cast<float>(from.at[row][first + column]); });
  }
  template <int columns>
  void put_rows(const swizzled_tile<float8_e4m3>& tile, const group_accumulators<columns>& acc, int first,
                const row_values& by) {
    put_each(tile, [&](int row, int column) { return acc.at[row][first + column] * by.at[row]; });
  }

  template <int columns>
  struct column_values {
    float at[columns];
  };
  template <int columns, class F>
  column_values<columns> of_columns(F f) {
    column_values<columns> values;
    for (int c = 0; c < columns; ++c) values.at[c] = f(c);
    return values;
  }
  template <int columns, class F>
  void each_column(const column_values<columns>& values, F f) {
    for (int c = 0; c < columns; ++c) f(c, values.at[c]);
  }
  template <int columns, class F>
  column_values<columns> combined_columns(const column_values<columns>& a, const column_values<columns>& b,
                                          F f) {
    return of_columns<columns>([&](int c) { return f(a.at[c], b.at[c]); });
  }
  template <int columns, class F>
  bool any_column(const column_values<columns>& values, F f) {
    return std::any_of(std::begin(values.at), std::end(values.at), f);
  }
  template <int columns>
  column_values<columns> largest_of_columns(const group_accumulators<columns>& acc) {
    return of_columns<columns>([&](int c) {
      float most = acc.at[0][c];
      for (const auto& row : acc.at) most = std::max(most, row[c]);
      return most;
    });
  }
  template <int columns>
  column_values<columns> total_of_columns(const column_values<columns>& sums) {
    return sums;
  }
  template <int columns>
  void scale_columns(group_accumulators<columns>& acc, const column_values<columns>& by) {
    for (auto& row : acc.at)
      for (int c = 0; c < columns; ++c) row[c] *= by.at[c];
  }
  template <int columns>
  void exponentials_of_columns(group_accumulators<columns>& acc, float scale,
                               const column_values<columns>& low, column_values<columns>& sums) {
    for (auto& row : acc.at) {
      for (int c = 0; c < columns; ++c) {
        row[c] = exp2_quickly(std::fma(row[c], scale, -low.at[c]));
        sums.at[c] += row[c];
      }
    }
  }
  template <int columns, class T, int step>
  void start_product(group_accumulators<columns>& acc, const spread_tile<T, step>& a,
                     const swizzled_tile<T>& b, bool add) {
    const int first = warp_of_group() * group_warp_rows;
    start<T, swizzled_tile<T>::columns>(acc, b, add, [this, a, first](int row, int chunk, auto& to) {
      read_chunk<T>(a.chunk(first + row, chunk), to);
    });
  }
  template <int columns, int n, class T, int step>
  void start_products(group_accumulators<columns> (&acc)[n], const turned_tiles<T, step>& a,
                      const tile_columns<T, 16>& b, bool add) {
    const int first = warp_of_group() * group_warp_rows;
    for (int i = 0; i < n; ++i) {
      start<T, 16>(acc[i], b, add, [this, tile = a.tile(i), first](int row, int chunk, auto& to) {
        constexpr int values = swizzled_tile<T>::chunk_values;
        for (int k = 0; k < values; ++k)
          to[k] =
              read_value<T>(tile.chunk(chunk * values + k, (first + row) / values), (first + row) % values);
      });
    }
  }
  template <int newest, int columns, int n>
  void await_all_products(group_accumulators<columns> (&)[n]) {
    run_all_but(newest);
  }

 private:
  Context& me() { return *static_cast<Context*>(this); }

  template <class T>
  swizzled_tile<T> own_rows(const swizzled_tile<T>& of_group) {
    return of_group.from_row(warp_of_group() * group_warp_rows);
  }
  /// `left(row, chunk, to)` gives values of k of A.
  template <class T, int k, int columns, class B, class Left>
  void start(group_accumulators<columns>& acc, const B& b, bool add, Left left) {
    if (me().has_given_up()) return;
    started_.push_back([this, &acc, b, add, left] {
      if (!add) clear(acc);
      multiply<T, k>(acc, b, left);
    });
    if (me().engine_is_quick()) run_all_but(0);
  }

  /// `column_at(place)` is which of the 32 columns stands there.
  template <class T, class F, class Column>
  void each_chunk_of(const group_results<32, T>& results, F f, Column column_at) {
    for (int r = 0; r < group_warp_rows; ++r) {
      for (int chunk = 0; chunk < 4; ++chunk) {
        T values[8];
        for (int i = 0; i < 8; ++i) values[i] = results.at[r][column_at(chunk * 8 + i)];
        vec16 bits;
        std::memcpy(&bits, values, sizeof bits);
        f(r, chunk, bits);
      }
    }
  }

  template <class T, class Value>
  void put_each(const swizzled_tile<T>& tile, Value value) {
    constexpr int values = swizzled_tile<T>::chunk_values;
    for (int r = 0; r < group_warp_rows; ++r) {
      for (int chunk = 0; chunk < swizzled_tile<T>::chunks; ++chunk) {
        T out[values];
        for (int i = 0; i < values; ++i) out[i] = T{value(r, chunk * values + i)};
        vec16 bits;
        std::memcpy(&bits, out, sizeof bits);
        me().write(tile.chunk(r, chunk), bits);
      }
    }
  }

  void run_all_but(std::size_t newest) {
    while (started_.size() > newest) {
      started_.front()();
      started_.pop_front();
    }
  }

  /// Eight values of k at a time, those of B transposed, so that the inner loop runs along a row of acc. A function of its own:
  /// inlined into a kernel, g++ 12 does not always vectorise it.
  template <class T, int k, int columns, class B, class Left>
  [[gnu::noinline]] void multiply(group_accumulators<columns>& acc, const B& b, const Left& left_at) {
    constexpr int values = swizzled_tile<T>::chunk_values;
    for (int chunk = 0; chunk < k / values; ++chunk) {
      float right[values][columns];
      read_values_of_k(b, chunk, right);
      for (int m = 0; m < group_warp_rows; ++m) {
        float left[values];
        left_at(m, chunk, left);
        add_scaled_rows(acc.at[m], right, left);
      }
    }
  }
  /// Those of chunk `chunk` of A, of each column of the product.
  template <int values, int columns, class T>
  void read_values_of_k(const swizzled_tile<T>& b, int chunk, float (&right)[values][columns]) {
    for (int n = 0; n < columns; ++n) {
      float of_row[values];
      read_chunk<T>(b.chunk(n, chunk), of_row);
      for (int k = 0; k < values; ++k) right[k][n] = of_row[k];
    }
  }
  template <int values, int columns, class T, int depth>
  void read_values_of_k(const tile_columns<T, depth>& b, int chunk, float (&right)[values][columns]) {
    read_values_of_k(b.tile, b.first / values + chunk, right);
  }
  template <int values, int columns, class T, int depth>
  void read_values_of_k(const rows_of_k<T, depth>& b, int chunk, float (&right)[values][columns]) {
    for (int k = 0; k < values; ++k) {
      for (int n = 0; n < columns; n += values) {
        float eight[values];
        read_chunk<T>(b.tile(n).chunk(chunk * values + k, n / values % swizzled_tile<T>::chunks), eight);
        std::copy(eight, eight + values, right[k] + n);
      }
    }
  }
  template <class T>
  void read_chunk(const vec16* from, float (&to)[swizzled_tile<T>::chunk_values]) {
    T values[swizzled_tile<T>::chunk_values];
    std::memcpy(values, me().engine_view(reinterpret_cast<const std::byte*>(from), sizeof values),
                sizeof values);
    if constexpr (std::is_same_v<T, bfloat16>)
      widen_eight(values, to);
    else
      for (std::size_t i = 0; i < std::size(values); ++i) to[i] = static_cast<float>(values[i]);
  }
  /// The value at `index` of a chunk.
  template <class T>
  float read_value(const vec16* from, int index) {
    T value;
    const std::byte* const at =
        reinterpret_cast<const std::byte*>(from) + static_cast<std::size_t>(index) * sizeof value;
    std::memcpy(&value, me().engine_view(at, sizeof value), sizeof value);
    return static_cast<float>(value);
  }

  std::deque<std::function<void()>> started_;
};

}  // namespace baton::sim
