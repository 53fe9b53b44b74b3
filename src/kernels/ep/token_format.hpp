#pragma once
// Token formats: how a warp turns 32 lanes' worth of a token into message bytes, and a message into output
// rows.
//
//   format          payload          scales                            step of a warp      step's payload
//   bf16_tokens     hidden bf16      none                              256 values          512 bytes
//   fp8_tokens      hidden e4m3      1 fp32 for each 128 values        512 values          512 bytes
//
// fp8, block b: s = max(max|x|, 1e-4) / 448, or the caller's input scale; q = e4m3(x * (1 / s)), to nearest,
// saturated. The 1x128 format and its floor of 1e-4 are those of DeepSeek-V3's block scaling.
//
// A sink takes what a step yields: payload(byte offset, vec16) and scale(block, float), one lane each.
#include "base/convert.hpp"
#include "exec/exec.hpp"
#include "kernels/ep/shape.hpp"

namespace baton::ep {

struct bf16_tokens {
  static constexpr int step_values = 256;

  template <exec_context X, class Scales, class Sink>
  static BATON_FN void encode_step(X& x, const bfloat16* token, int hidden, int step, const Scales&,
                                   Sink sink) {
    x.each_lane([&](int lane) {
      const int value = step * step_values + lane * 8;
      if (value < hidden) sink.payload(2 * value, x.read(reinterpret_cast<const vec16*>(token + value)));
    });
  }
};

struct fp8_tokens {
  static constexpr int step_values = 512;
  static constexpr int lane_values = 16;
  static constexpr int lanes_per_block = 128 / lane_values;

  struct lane_input {
    vec16 low, high;
  };

  static BATON_FN float largest(const vec16& v) {
    float m = 0.0f;
    for (int i = 0; i < 4; ++i) {
      m = larger(m, larger(magnitude(low_bf16(v.word[i])), magnitude(high_bf16(v.word[i]))));
    }
    return m;
  }
  static BATON_FN float magnitude(float v) { return v < 0.0f ? -v : v; }

  static BATON_FN std::uint32_t quantise(std::uint32_t first, std::uint32_t second, float inverse) {
    return pack_e4m3(low_bf16(first) * inverse, high_bf16(first) * inverse, low_bf16(second) * inverse,
                     high_bf16(second) * inverse);
  }
  static BATON_FN vec16 quantise(const lane_input& in, float inverse) {
    return {quantise(in.low.word[0], in.low.word[1], inverse),
            quantise(in.low.word[2], in.low.word[3], inverse),
            quantise(in.high.word[0], in.high.word[1], inverse),
            quantise(in.high.word[2], in.high.word[3], inverse)};
  }

  template <exec_context X, class Scales, class Sink>
  static BATON_FN void encode_step(X& x, const bfloat16* token, int hidden, int step, const Scales& scales,
                                   Sink sink) {
    typename X::template lanes<lane_input> in;
    typename X::template lanes<float> block_max;
    x.each_lane([&](int lane) {
      const int value = step * step_values + lane * lane_values;
      in[lane] = {};
      if (value < hidden) {
        const auto* at = reinterpret_cast<const vec16*>(token + value);
        in[lane] = {x.read(at), x.read(at + 1)};
      }
      block_max[lane] = larger(largest(in[lane].low), largest(in[lane].high));
    });
    for (int mask = 1; mask < lanes_per_block; mask *= 2) {
      const auto other = x.shuffle_xor(block_max, mask);
      x.each_lane([&](int lane) { block_max[lane] = larger(block_max[lane], other[lane]); });
    }
    x.each_lane([&](int lane) {
      const int value = step * step_values + lane * lane_values;
      if (value >= hidden) return;
      const int block = value / 128;
      const float scale = scales.present() ? scales(block) : larger(block_max[lane], 1e-4f) / 448.0f;
      sink.payload(value, quantise(in[lane], 1.0f / scale));
      if (lane % lanes_per_block == 0) sink.scale(block, scale);
    });
  }
};

/// Bytes of payload that one warp moves in a step, whatever the format.
inline constexpr int step_bytes = warp_lanes * static_cast<int>(sizeof(vec16));

/// Steps of one token in `format`: as many for sending as for receiving.
constexpr int steps_of(const shape& s) {
  return ceil_div(s.payload_bytes(), step_bytes);
}
/// Steps of one row of a combine message.
constexpr int reply_steps_of(const shape& s) {
  return ceil_div(s.combine_bytes(), step_bytes);
}

}  // namespace baton::ep
