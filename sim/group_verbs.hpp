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

#include "base/convert.hpp"
#include "base/dot.hpp"
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
    if (me().has_given_up()) return;
    started_.push_back([this, &acc, a, b, add] {
      if (!add) clear(acc);
      multiply(acc, a.from_row(warp_of_group() * group_warp_rows), b);
    });
    if (me().engine_is_quick()) run_all_but(0);
  }
  template <class T>
  using prepared_tile = swizzled_tile<T>;
  template <class T>
  swizzled_tile<T> prepare(const swizzled_tile<T>& tile) {
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
  template <int columns, int taken, class T>
  void round(const group_accumulators<columns>& acc, int first, group_results<taken, T>& results) {
    for (int r = 0; r < group_warp_rows; ++r)
      for (int c = 0; c < taken; ++c) results.at[r][c] = T{acc.at[r][first + c]};
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

 private:
  Context& me() { return *static_cast<Context*>(this); }

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
  template <int columns, class T, class B>
  [[gnu::noinline]] void multiply(group_accumulators<columns>& acc, const swizzled_tile<T>& a, const B& b) {
    constexpr int values = swizzled_tile<T>::chunk_values;
    for (int chunk = 0; chunk < swizzled_tile<T>::chunks; ++chunk) {
      float right[values][columns];
      read_values_of_k(b, chunk, right);
      for (int m = 0; m < group_warp_rows; ++m) {
        float left[values];
        read_chunk<T>(a.chunk(m, chunk), left);
        for (int k = 0; k < values; ++k) baton::add_scaled(acc.at[m], right[k], left[k], columns);
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
  template <int values, int columns, class T>
  void read_values_of_k(const rows_of_k<T>& b, int chunk, float (&right)[values][columns]) {
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
    for (std::size_t i = 0; i < std::size(values); ++i) to[i] = static_cast<float>(values[i]);
  }

  std::deque<std::function<void()>> started_;
};

}  // namespace baton::sim
