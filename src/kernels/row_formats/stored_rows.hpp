#pragma once
// A source of row_format_kernel: rows as dispatch left them, in any format, one after the other or where a list says.
#include <cstdint>

#include "base/block_format.hpp"
#include "exec/exec.hpp"
#include "kernels/row_formats/params.hpp"

namespace baton::row_formats {

/// value(r, i) = value * (scale * tensor scale), as baton/token_format.hpp has it.
template <token_format Format>
struct stored_rows {
  template <class X>
  static BATON_FN void load(X& x, const params& p, std::int64_t row, int column, float* eight) {
    const std::int64_t place = place_of(x, p, static_cast<int>(row));
    const auto* values =
        static_cast<const std::byte*>(p.in) + place * p.stored.row_bytes + column / 8 * facts.value_bits;
    if constexpr (Format == token_format::bf16) {
      widen(x.read(reinterpret_cast<const vec16*>(values)).word, eight);
    } else {
      const float scale = scale_of(x, p, static_cast<int>(row), place, column / facts.block);
      widen_values(x, values, eight);
      BATON_UNROLL
      for (int i = 0; i < 8; ++i) eight[i] *= scale;
    }
  }

 private:
  static constexpr format_facts facts = facts_of(Format);

  /// Bounded before it is followed.
  template <class X>
  static BATON_FN std::int64_t place_of(X& x, const params& p, int row) {
    if (p.stored.token_rows == nullptr) return row;
    return smaller(larger(x.read(p.stored.token_rows + row), 0), p.stored.num_token_rows - 1);
  }

  template <class X>
  static BATON_FN float scale_of(X& x, const params& p, int row, std::int64_t place, int block) {
    using stored = typename block_format<Format>::stored;
    const auto* scales = static_cast<const std::byte*>(p.stored.scales);
    const stored* at = p.stored.token_rows == nullptr
                           ? reinterpret_cast<const stored*>(scales) + p.stored.places.at(row, block)
                           : reinterpret_cast<const stored*>(scales + place * p.stored.row_bytes) + block;
    const float tensor = p.stored.tensor_scale == nullptr ? 1.0f : x.read(p.stored.tensor_scale);
    return static_cast<float>(x.read(at)) * tensor;
  }

  template <class X>
  static BATON_FN void widen_values(X& x, const std::byte* from, float* eight) {
    if constexpr (facts.value_bits == 8) {
      const std::uint64_t bits = x.read(reinterpret_cast<const std::uint64_t*>(from));
      widen_e4m3(static_cast<std::uint32_t>(bits), eight);
      widen_e4m3(static_cast<std::uint32_t>(bits >> 32), eight + 4);
    } else {
      const std::uint32_t bits = x.read(reinterpret_cast<const std::uint32_t*>(from));
      BATON_UNROLL
      for (int i = 0; i < 8; ++i)
        eight[i] =
            static_cast<float>(float4_e2m1::from_bits(static_cast<std::uint8_t>(bits >> (4 * i) & 15)));
    }
  }
};

}  // namespace baton::row_formats
