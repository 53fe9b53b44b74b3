#pragma once
// The verbs of one warp with e4m3 in shared memory on the CPU machine (exec/narrow_mma.hpp), over the read verb of the context
// that inherits them: what a missing hand-over leaves stale is stale here, too.
#include <cstring>

#include "base/dot.hpp"
#include "base/fp8_rows.hpp"
#include "exec/narrow_mma.hpp"

namespace baton::sim {

/// `Context` has group_accumulators<16>, read().
template <class Context>
class narrow_verbs {
  static constexpr int rows = 16, most_columns = 16, depth = 256, turned_rows = 64;

 public:
  template <class Accumulators, int step>
  void multiply_add(Accumulators& acc, const spread_columns<float8_e4m3, step>& a, const fp16_units& b,
                    int columns) {
    float right[depth][most_columns] = {};
    for (int n = 0; n < columns; ++n) {
      for (int unit = 0; unit < fp16_units::units; ++unit) {
        float values[fp16_units::unit_values];
        const auto* const at = reinterpret_cast<const vec16*>(b.unit(n, unit));
        read_halves(at, at + 1, values);
        for (int k = 0; k < fp16_units::unit_values; ++k)
          right[unit * fp16_units::unit_values + k][n] = values[k];
      }
    }
    for (int m = 0; m < rows; ++m) {
      float left[depth];
      for (int chunk = 0; chunk < depth / sixteen; ++chunk)
        read_sixteen(a.chunk(m, chunk), left + chunk * sixteen);
      add_scaled_rows(acc.at[m], right, left);
    }
  }

  template <class Accumulators, int n, int step>
  void multiply_add_turned(Accumulators (&accs)[n], const spread_columns<float8_e4m3, step>& v,
                           const operand_tile_fp16& w, row_span span, int columns) {
    static_assert(n % 2 == 0, "chunks of V are read two at a time");
    float right[turned_rows][most_columns] = {};  // W^T
    for (int c = 0; c < columns; ++c) {
      for (int k = 0; k < turned_rows; k += sixteen) {
        float values[sixteen];
        read_halves(w.chunk(c, k / 8), w.chunk(c, k / 8 + 1), values);
        for (int i = 0; i < sixteen; ++i) right[k + i][c] = values[i];
      }
    }
    for (int i = 0; i < n; ++i) {
      float left[sixteen][turned_rows];
      for (int k = 0; k < turned_rows; ++k) {
        float values[sixteen];
        read_sixteen(v.chunk(k, i), values);
        for (int m = 0; m < sixteen; ++m) left[m][k] = k >= span.begin && k < span.end ? values[m] : 0.0f;
      }
      for (int r = 0; r < rows; ++r) add_scaled_rows(accs[i].at[r], right, left[turned_column(r)]);
    }
  }

 private:
  static constexpr int sixteen = 16;

  Context& me() { return *static_cast<Context*>(this); }

  void read_sixteen(const vec16* from, float* to) {
    float8_e4m3 values[sixteen];
    const vec16 bits = me().read(from);
    std::memcpy(values, &bits, sizeof bits);
    widen(values, sixteen, to);
  }
  void read_halves(const vec16* first, const vec16* second, float* to) {
    const vec16 both[] = {me().read(first), me().read(second)};
    float16 values[sixteen];
    std::memcpy(values, both, sizeof both);
    widen(values, sixteen, to);
  }
};

}  // namespace baton::sim
