#pragma once
// A part of a sum in block FP8, as it lies in a window: values, and behind them scales. A lane has 8 columns of a step, so that
// 16 lanes have a block.
#include "base/block_format.hpp"
#include "kernels/ep/per_rank_chunks/token_sum.hpp"

namespace baton::ep::per_rank_chunks {

/// The warp, of n steps' sums: bits of the largest magnitude of each lane's block.
template <int n, class X>
BATON_FN void find_largest(X& x, typename X::template lanes<std::uint32_t> (&most)[n]) {
  BATON_UNROLL
  for (int mask = 1; mask < lanes_of_block; mask *= 2) {
    BATON_UNROLL
    for (int s = 0; s < n; ++s) {
      const auto other = x.shuffle_xor(most[s], mask);
      x.each_lane([&](int lane) { most[s][lane] = larger(most[s][lane], other[lane]); });
    }
  }
}

/// A lane's eight values in the format; gives back their scale.
template <class X>
BATON_FN float write_fp8(X& x, std::uint64_t* to, const float (&sum)[columns_of_lane], std::uint32_t most) {
  const auto scale = fp8_blocks::scale_of(most, {});
  std::uint32_t word[2];
  fp8_blocks::pack(sum, scale, word);
  x.write(to, std::uint64_t{word[1]} << 32 | word[0]);
  return scale.stored;
}

/// What a warp of combine in chunks finishes a part with that is sent, a step after the other. Scales are kept until there is
/// one for each lane: two a step by themselves would be packets of their own on a link.
template <class X>
class fp8_part_writer {
 public:
  static constexpr bool is_of_warp = true;
  BATON_FN fp8_part_writer(X& x, const column_range& c, std::byte* part)
      : x_{x}, c_{c}, values_{reinterpret_cast<std::uint64_t*>(part)} {}

  BATON_FN void operator()(int first, const step_sums<X>& sum) {
    if (first >= c_.end) return;
    typename X::template lanes<std::uint32_t> most[1];
    x_.each_lane([&](int lane) { most[0][lane] = fp8_blocks::largest(sum.of[lane].at); });
    find_largest(x_, most);
    typename X::template lanes<float> scale{};
    x_.each_lane([&](int lane) {
      if (c_.has(first, 0, lane))
        scale[lane] = write_fp8(x_, values_ + (first + lane - c_.begin), sum.of[lane].at, most[0][lane]);
    });
    const int block = (first - c_.begin) / lanes_of_block, place = block % warp_lanes;
    const float low = x_.broadcast(scale, 0), high = x_.broadcast(scale, lanes_of_block);
    x_.each_lane([&](int lane) {
      if (lane == place) kept_[lane] = low;
      if (lane == place + 1) kept_[lane] = high;
    });
    if (place + 2 == warp_lanes || first + warp_lanes >= c_.end) write_scales(block - place, place + 2);
  }

 private:
  BATON_FN void write_scales(int first_block, int num) {
    const int blocks = (c_.end - c_.begin) / lanes_of_block;
    auto* scales = reinterpret_cast<float*>(values_ + (c_.end - c_.begin)) + first_block;
    x_.each_lane([&](int lane) {
      if (lane < num && first_block + lane < blocks) x_.write(scales + lane, kept_[lane]);
    });
  }

  X& x_;
  const column_range& c_;
  std::uint64_t* values_;
  typename X::template lanes<float> kept_{};
};

}  // namespace baton::ep::per_rank_chunks
