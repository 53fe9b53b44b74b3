#pragma once
// Where the scales of a received row lie, and how a warp writes them there.
#include "exec/exec.hpp"
#include "kernels/ep/shape.hpp"

namespace baton::ep {

/// Scales of one byte go four at a time where all four have the place of a word: in tiles always. In every layout the places of a
/// row's words, or bytes, are equally far apart.
struct row_scales {
  std::byte* first;
  int width;  // of what is written at once
  int apart;  // bytes from one to the next

  /// Where tokens lie by expert.
  static BATON_FN row_scales of_row(const format_facts& facts, const scale_places& places, std::byte* scales,
                                    int row) {
    const bool is_tiled = places.layout == scale_layout::tiled_128x4;
    const int width = facts.scale_bytes == 4 || is_tiled || places.blocks % 4 == 0 ? 4 : 1;
    const int apart = facts.scale_bytes == 4 ? 4 * places.rows : is_tiled ? 512 : width;
    return {scales + places.at(row, 0) * facts.scale_bytes, width, apart};
  }
  /// Beside the token's values, where there is room for whole words.
  static BATON_FN row_scales of_token(const shape& s, std::byte* scales, int token) {
    return {scales + static_cast<std::int64_t>(token) * s.token_row_bytes(), 4, 4};
  }

  /// One lane: what stands at `from` as the `nth` that is written at once.
  template <class X>
  BATON_FN void copy(X& x, int nth, const std::byte* from) const {
    std::byte* const to = first + std::int64_t{nth} * apart;
    if (width == 4)
      x.write(reinterpret_cast<std::uint32_t*>(to), x.read(reinterpret_cast<const std::uint32_t*>(from)));
    else
      x.write(to, x.read(from));
  }

  /// One warp: `bytes` of a row's scales, those behind its first `before` bytes; both are multiples of four, or end the row.
  template <class X>
  BATON_FN void copy_all(X& x, const std::byte* from, int before, int bytes) const {
    x.each(ceil_div(bytes, width), [&](int i) { copy(x, before / width + i, from + i * width); });
  }

  /// One lane: the row's `nth` word; `behind` are its bytes of scales.
  template <class X>
  BATON_FN void write_word(X& x, int nth, std::uint32_t word, int behind) const {
    if (width == 4) return x.write(reinterpret_cast<std::uint32_t*>(first + std::int64_t{nth} * apart), word);
    BATON_UNROLL
    for (int i = 0; i < 4; ++i)
      if (4 * nth + i < behind) x.write(first + 4 * nth + i, static_cast<std::byte>(word >> (8 * i)));
  }
};

}  // namespace baton::ep
