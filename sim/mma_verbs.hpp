#pragma once
// The matrix verbs of the CPU machine (exec/mma.hpp), over the read verb of the context that inherits them: what a
// missing hand-over leaves stale is stale here too.
#include "base/convert.hpp"
#include "base/dot.hpp"
#include "exec/mma.hpp"

namespace baton::sim {

template <class Context>
class mma_verbs {
 public:
  template <int rows, int columns>
  struct accumulators {
    float at[rows][columns];
  };

  template <int rows, int columns>
  void clear(accumulators<rows, columns>& acc) {
    for (auto& row : acc.at)
      for (float& v : row) v = 0.0f;
  }

  /// Eight columns of k at a time, transposed, so that the inner loop runs along a row of acc. A function of its own:
  /// inlined into a kernel, g++ 12 does not always vectorise it.
  template <int rows, int columns>
  [[gnu::noinline]] void multiply_add(accumulators<rows, columns>& acc, const operand_tile& a,
                                      const operand_tile& b) {
    for (int chunk = 0; chunk < operand_tile::chunks; ++chunk) {
      float right[operand_tile::chunk_values][columns];
      for (int n = 0; n < columns; ++n) {
        float values[operand_tile::chunk_values];
        widen(b.chunk(n, chunk), values);
        for (int k = 0; k < operand_tile::chunk_values; ++k) right[k][n] = values[k];
      }
      for (int m = 0; m < rows; ++m) {
        float left[operand_tile::chunk_values];
        widen(a.chunk(m, chunk), left);
        add_scaled_rows(acc.at[m], right, left);
      }
    }
  }

  template <int rows, int columns, class F>
  void each_pair(const accumulators<rows, columns>& acc, F f) {
    for (int m = 0; m < rows; ++m)
      for (int n = 0; n < columns; n += 2) f(m, n, acc.at[m][n], acc.at[m][n + 1]);
  }

 private:
  void widen(const vec16* from, float (&values)[operand_tile::chunk_values]) {
    const vec16 bits = static_cast<Context*>(this)->read(from);
    for (int i = 0; i < 4; ++i) {
      values[2 * i] = low_bf16(bits.word[i]);
      values[2 * i + 1] = high_bf16(bits.word[i]);
    }
  }
};

}  // namespace baton::sim
