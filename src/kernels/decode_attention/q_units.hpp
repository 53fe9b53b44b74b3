#pragma once
// Q as products with e4m3 take it: fp16 in units (exec/tile.hpp), written over what the copy engine brought. A row is scaled by a
// power of two, so that its largest magnitude is from 2^7 to 2^8; its scores are multiplied by the inverse, times k_descale:
// q_factors.
#include <bit>
#include <cmath>

#include "base/convert.hpp"
#include "kernels/decode_attention/params.hpp"

namespace baton::decode_attention {

/// 2^(7 - e) of a row whose largest magnitude is from 2^e to 2^(e + 1), and its inverse; e counts as -100 where it is less.
struct row_factor {
  float by, inverse;
};
BATON_FN row_factor factor_of(float largest) {
  constexpr int bias = 127, top = 7;
  const int exponent = larger(static_cast<int>(std::bit_cast<std::uint32_t>(largest) >> 23) - bias, -100);
  const auto power = [](int e) { return std::bit_cast<float>(static_cast<std::uint32_t>(e + bias) << 23); };
  return {power(top - exponent), power(exponent - top)};
}

template <config C, class X>
class q_units {
  using T = value<C>;
  static constexpr int lane_chunks = C.head_dim / 8 / warp_lanes;  // of 8 values, that a lane has of a row
  struct row_share {
    vec16 chunks[lane_chunks];
  };

 public:
  /// `descale`: k_descale of the item's head.
  BATON_FN q_units(X& x, const params& p, float descale) : x_{x}, p_{p}, descale_{descale} {}

  /// Rows that a box has brought, by all consumers' warps, `warp` being which of them this is.
  BATON_FN void make(int warp) {
    BATON_ROLLED
    for (int row = warp; row < p_.box_rows; row += consumer_warps) make_row(row);
    x_.each_lane([&](int lane) {
      if (warp == 0 && lane >= p_.box_rows && lane < C.rows)
        x_.write(block_plan<C>{}.q_factors(x_) + lane, 0.0f);  // rows that no box brings
      x_.fence_proxy_async();  // the copy engine brings the next item's Q over what was written here
    });
  }
  /// The `index`-th 256 columns of all rows.
  BATON_FN static fp16_units at(X& x, int index) {
    return {q_tile<C>(x, 4 * index).at, C.rows * fp16_units::row_bytes};
  }

 private:
  BATON_FN void make_row(int row) {
    typename X::template lanes<row_share> held;
    typename X::template lanes<float> most;
    x_.each_lane([&](int lane) {
      most[lane] = 0;
      BATON_UNROLL
      for (int i = 0; i < lane_chunks; ++i) {
        const int chunk = i * warp_lanes + lane;
        const vec16 read =
            x_.read(q_tile<C>(x_, chunk / tile<C>::chunks).chunk(row, chunk % tile<C>::chunks));
        held[lane].chunks[i] = read;
        BATON_UNROLL
        for (const std::uint32_t word : read.word) {
          const two_floats two = widen_two<T>(word);
          most[lane] = larger(most[lane], larger(fabsf(two.low), fabsf(two.high)));
        }
      }
    });
    for (int mask = 1; mask < warp_lanes; mask *= 2) {
      const auto other = x_.shuffle_xor(most, mask);
      x_.each_lane([&](int lane) { most[lane] = larger(most[lane], other[lane]); });
    }
    x_.sync_warp();  // all have read what is written over
    x_.each_lane([&](int lane) {
      const row_factor factor = factor_of(most[lane]);
      if (lane == 0) x_.write(block_plan<C>{}.q_factors(x_) + row, factor.inverse * descale_);
      BATON_UNROLL
      for (int i = 0; i < lane_chunks; ++i) {
        const int chunk = i * warp_lanes + lane;
        vec16 made;
        BATON_UNROLL
        for (int n = 0; n < 4; ++n) {
          const two_floats two = widen_two<T>(held[lane].chunks[i].word[n]);
          made.word[n] = pack_fp16(two.low * factor.by, two.high * factor.by);
        }
        constexpr int chunks_of_units = 2 * fp16_units::units;
        std::byte* const to = at(x_, chunk / chunks_of_units).unit(row, chunk % chunks_of_units / 2);
        x_.write(reinterpret_cast<vec16*>(to) + chunk % 2, made);
      }
    });
  }

  X& x_;
  const params& p_;
  float descale_;
};

}  // namespace baton::decode_attention
