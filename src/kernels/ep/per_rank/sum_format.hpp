#pragma once
// In which format units of sums travel: what lanes have of a unit, put into its lines and taken from them. A rank's part of a
// token is rounded once, from fp32, when it is sent.
//
//   format          a lane's columns    its lines
//   bf16            8, or 4 of them     as they are
//   blockwise_fp8   16, of a block      e4m3, and the block's scale (base/block_format.hpp)
#include "base/add_weighted.hpp"
#include "base/block_format.hpp"
#include "kernels/ep/per_rank/unit.hpp"

namespace baton::ep::per_rank {

/// A lane's columns in fp32.
template <int n>
struct lane_sums_of {
  float at[n];
};

/// The nth eight of a lane's columns.
template <class Float, int n>
BATON_FN auto& eight_of(Float (&columns)[n], int nth) {
  return *reinterpret_cast<Float(*)[8]>(columns + 8 * nth);
}

/// t[i] += the i-th of eight bf16.
BATON_FN void add_bf16(float* t, const vec16& row) {
  BATON_UNROLL
  for (int i = 0; i < 4; ++i) {
    t[2 * i] += low_bf16(row.word[i]);
    t[2 * i + 1] += high_bf16(row.word[i]);
  }
}

template <token_format Sums>
struct sum_format {
  static_assert(Sums == token_format::bf16);
  static constexpr int columns = 8;  // of a lane
  template <class X>
  using lane_sums = typename X::template lanes<lane_sums_of<columns>>;

  template <class X>
  static BATON_FN typename X::template lanes<vec16> lines_of(X& x, const lane_sums<X>& sum, int unit,
                                                             std::uint64_t epoch) {
    typename X::template lanes<vec16> v;
    x.each_lane([&](int lane) {
      const float(&s)[8] = sum[lane].at;
      const bool upper = lane_columns{unit, lane}.offset != 0;
      const std::uint32_t a = pack_bf16(s[0], s[1]), b = pack_bf16(s[2], s[3]), c = pack_bf16(s[4], s[5]),
                          d = pack_bf16(s[6], s[7]);
      v[lane] =
          holds_flag(lane) ? with_flag(upper ? c : a, upper ? d : b, line_flag(epoch)) : vec16{{a, b, c, d}};
    });
    return v;
  }

  template <class X>
  static BATON_FN void add(X& x, const typename X::template lanes<vec16>& lines, lane_sums<X>& total) {
    x.each_lane([&](int lane) { add_bf16(total[lane].at, lines[lane]); });
  }
};

template <>
struct sum_format<token_format::blockwise_fp8> {
  using blocks = block_format<token_format::blockwise_fp8>;
  static constexpr int columns = fp8_lane_columns::columns_of_lane;
  static constexpr int lanes_of_block = fp8_lane_columns::lanes_of_block;
  static_assert(lanes_of_block == blocks::lanes_per_block && columns == lane_values);
  template <class X>
  using lane_sums = typename X::template lanes<lane_sums_of<columns>>;

  template <class X>
  static BATON_FN typename X::template lanes<vec16> lines_of(X& x, const lane_sums<X>& sum, int,
                                                             std::uint64_t epoch) {
    typename X::template lanes<std::uint32_t> most;
    x.each_lane([&](int lane) { most[lane] = blocks::largest(sum[lane].at); });
    BATON_UNROLL
    for (int mask = 1; mask < lanes_of_block; mask *= 2) {
      const auto other = x.shuffle_xor(most, mask);
      x.each_lane([&](int lane) { most[lane] = larger(most[lane], other[lane]); });
    }
    const auto of_block = of_blocks(x, most, 0);
    typename X::template lanes<vec16> v;
    x.each_lane([&](int lane) {
      const auto scale = blocks::scale_of(of_block.of(lane), {});
      blocks::pack(sum[lane].at, scale, v[lane].word);
      if (holds_flag(lane))
        v[lane] = with_flag(std::bit_cast<std::uint32_t>(scale.stored), 0, line_flag(epoch));
    });
    return v;
  }

  template <class X>
  static BATON_FN void add(X& x, const typename X::template lanes<vec16>& lines, lane_sums<X>& total) {
    typename X::template lanes<std::uint32_t> first;
    x.each_lane([&](int lane) { first[lane] = lines[lane].word[0]; });
    const auto scales = of_blocks(x, first, lanes_of_block - 1);
    x.each_lane([&](int lane) {
      BATON_UNROLL
      for (int i = 0; i < 4; ++i)
        add_scaled_e4m3(total[lane].at + 4 * i, std::bit_cast<float>(scales.of(lane)), lines[lane].word[i]);
    });
  }

 private:
  /// What one lane of each block has, for whichever lane has columns of it.
  struct words_of_blocks {
    std::uint32_t word[blocks_of_sum];
    BATON_FN std::uint32_t of(int lane) const {
      const int block = fp8_lane_columns{0, lane}.block;
      return block == 0 ? word[0] : block == 1 ? word[1] : word[2];
    }
  };
  template <class X>
  static BATON_FN words_of_blocks of_blocks(X& x, const typename X::template lanes<std::uint32_t>& of_lane,
                                            int nth) {
    words_of_blocks all;
    BATON_UNROLL
    for (int i = 0; i < blocks_of_sum; ++i) all.word[i] = x.broadcast(of_lane, i * lanes_of_block + nth);
    return all;
  }
};

}  // namespace baton::ep::per_rank
