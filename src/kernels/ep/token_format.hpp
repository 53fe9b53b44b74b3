#pragma once
// Token formats: how a warp turns 32 lanes' worth of a token into message bytes, and a message into output
// rows.
//
//   format          payload          scales                            step of a warp      step's payload
//   bf16_tokens     hidden bf16      none                              256 values          512 bytes
//   fp8_tokens      hidden e4m3      1 fp32 for each 128 values        512 values          512 bytes
//   block_tokens    by its format    by its format                     512 e4m3, 1024 e2m1 512 bytes
//   given_tokens    by its format    by its format                     512 e4m3, 1024 e2m1 512 bytes
//
// baton/token_format.hpp has the rules. fp8_tokens: block b's scale may be the caller's input scale; nvfp4: input scale 0 is the
// tensor's. given_tokens: the caller's payload and scales as they are.
//
// A warp loads a step of values of a token from `first`, those before `end`, and encodes one or more: apart, so that several
// loads are in flight before the first is used, and together, so that no step waits for another. A sink takes what a step
// yields, one lane each: payload(byte offset, vec16) and scale(nth, what is stored for scale_values values: a scale, or two).
#include <type_traits>

#include "base/block_format.hpp"
#include "base/convert.hpp"
#include "exec/exec.hpp"
#include "kernels/ep/shape.hpp"

namespace baton::ep {

/// A sink in shared memory, of a part of a token: payload from `first_byte` on, scales from the `first_scale`-th on, counted as
/// the format stores them: one for scale_values values.
template <class X>
struct shared_sink {
  X& x;
  std::byte *payload_at, *scales_at;
  int first_byte, first_scale;
  BATON_FN void payload(int offset, const vec16& bits) const {
    x.write(reinterpret_cast<vec16*>(payload_at + (offset - first_byte)), bits);
  }
  template <class Scale>
  BATON_FN void scale(int nth, Scale value) const {
    x.write(reinterpret_cast<Scale*>(scales_at) + (nth - first_scale), value);
  }
};

/// Tokens that a rank has in bf16, in the parameters of a dispatch.
struct bf16_source {
  static constexpr int source_bits = 16;  // of a value
  using source = const bfloat16*;
  template <class P>
  static BATON_FN source token(const P& p, int nth) {
    return static_cast<const bfloat16*>(p.tokens) + static_cast<std::int64_t>(nth) * p.s.hidden;
  }
};

struct bf16_tokens : bf16_source {
  static constexpr token_format format = token_format::bf16;
  static constexpr int step_values = 256;
  static constexpr int scale_values = step_values;  // it has none

  static constexpr int lane_values = 8;

  struct lane_input {
    vec16 values;
  };

  template <exec_context X>
  static BATON_FN void load(X& x, const bfloat16* token, int first, int end,
                            typename X::template lanes<lane_input>& in) {
    x.each_lane([&](int lane) {
      const int value = first + lane * lane_values;
      in[lane] = {};
      if (value < end) in[lane] = {x.read(reinterpret_cast<const vec16*>(token + value))};
    });
  }
  template <int steps, exec_context X, class Scales, class Sink>
  static BATON_FN void encode(X& x, const typename X::template lanes<lane_input> (&in)[steps], int first,
                              int end, const Scales&, Sink sink) {
    x.each_lane([&](int lane) {
      BATON_UNROLL
      for (int i = 0; i < steps; ++i) {
        const int value = first + i * step_values + lane * lane_values;
        if (value < end) sink.payload(2 * value, in[i][lane].values);
      }
    });
  }
};

struct fp8_tokens : bf16_source {
  static constexpr token_format format = token_format::blockwise_fp8;
  static constexpr int step_values = 512;
  static constexpr int scale_values = 128;
  static constexpr int lane_values = 16;
  static constexpr int lanes_per_block = scale_values / lane_values;

  struct lane_input {
    vec16 low, high;
  };

  static BATON_FN float largest(const lane_input& in) {
    std::uint32_t most = 0;
    for (const std::uint32_t pair : in.low.word) most = larger_magnitudes(most, pair);
    for (const std::uint32_t pair : in.high.word) most = larger_magnitudes(most, pair);
    return larger(larger(0.0f, low_bf16(most)), high_bf16(most));
  }

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

  template <exec_context X>
  static BATON_FN void load(X& x, const bfloat16* token, int first, int end,
                            typename X::template lanes<lane_input>& in) {
    x.each_lane([&](int lane) {
      const int value = first + lane * lane_values;
      in[lane] = {};
      if (value < end) {
        const auto* at = reinterpret_cast<const vec16*>(token + value);
        in[lane] = {x.read(at), x.read(at + 1)};
      }
    });
  }
  template <int steps, exec_context X, class Scales, class Sink>
  static BATON_FN void encode(X& x, const typename X::template lanes<lane_input> (&in)[steps], int first,
                              int end, const Scales& scales, Sink sink) {
    typename X::template lanes<float> block_max[steps];
    x.each_lane([&](int lane) {
      BATON_UNROLL
      for (int i = 0; i < steps; ++i) block_max[i][lane] = largest(in[i][lane]);
    });
    for (int mask = 1; mask < lanes_per_block; mask *= 2) {
      BATON_UNROLL
      for (int i = 0; i < steps; ++i) {
        const auto other = x.shuffle_xor(block_max[i], mask);
        x.each_lane([&](int lane) { block_max[i][lane] = larger(block_max[i][lane], other[lane]); });
      }
    }
    x.each_lane([&](int lane) {
      BATON_UNROLL
      for (int i = 0; i < steps; ++i) {
        const int value = first + i * step_values + lane * lane_values;
        if (value >= end) continue;
        const int block = value / 128;
        const float scale =
            scales.present() ? scales(block) : divided_by_448(larger(block_max[i][lane], 1e-4f));
        sink.payload(value, quantise(in[i][lane], 1.0f / scale));
        if (lane % lanes_per_block == 0) sink.scale(block, scale);
      }
    });
  }
};

/// mxfp8, mxfp4 and nvfp4: a lane has 16 bytes of payload, which are one or two pieces of lane_values values. The two scales of a
/// lane of nvfp4 are stored as one.
template <token_format Format>
struct block_tokens : bf16_source {
  static constexpr token_format format = Format;
  using blocks = block_format<Format>;
  static constexpr int pieces = 8 / blocks::facts.value_bits;
  static constexpr int values_of_lane = pieces * lane_values;
  static constexpr int step_values = warp_lanes * values_of_lane;
  static constexpr int scale_values = larger(values_of_lane, blocks::facts.block);

  struct lane_input {
    vec16 eight[2 * pieces];
  };

  template <exec_context X>
  static BATON_FN void load(X& x, const bfloat16* token, int first, int end,
                            typename X::template lanes<lane_input>& in) {
    x.each_lane([&](int lane) {
      const int value = first + lane * values_of_lane;
      in[lane] = {};
      if (value >= end) return;
      BATON_UNROLL
      for (int i = 0; i < 2 * pieces; ++i)
        in[lane].eight[i] = x.read(reinterpret_cast<const vec16*>(token + value) + i);
    });
  }

  template <int steps, exec_context X, class Scales, class Sink>
  static BATON_FN void encode(X& x, const typename X::template lanes<lane_input> (&in)[steps], int first,
                              int end, const Scales& scales, Sink sink) {
    const tensor_scaling tensor = scales.present() ? tensor_scaling_of(scales(0)) : tensor_scaling{};
    BATON_UNROLL
    for (int i = 0; i < steps; ++i) {
      typename X::template lanes<std::uint32_t> most[pieces];
      x.each_lane([&](int lane) {
        BATON_UNROLL
        for (int j = 0; j < pieces; ++j) most[j][lane] = blocks::largest(piece(in[i][lane], j).value);
      });
      agree(x, most);
      x.each_lane([&](int lane) {
        const int value = first + i * step_values + lane * values_of_lane;
        if (value >= end) return;
        vec16 bits;
        std::uint16_t scales_of_lane = 0;
        BATON_UNROLL
        for (int j = 0; j < pieces; ++j) {
          const auto scale = blocks::scale_of(most[j][lane], tensor);
          store(piece(in[i][lane], j), scale, bits.word + j * blocks::words);
          if (j * lane_values % blocks::facts.block == 0)
            scales_of_lane = static_cast<std::uint16_t>(scales_of_lane | scale.stored.bits << (8 * j));
        }
        if constexpr (blocks::facts.block < values_of_lane)
          sink.scale(value / scale_values, scales_of_lane);
        else if (value % scale_values == 0)
          sink.scale(value / scale_values, static_cast<std::uint8_t>(scales_of_lane));
        sink.payload(value / 8 * blocks::facts.value_bits, bits);
      });
    }
  }

 private:
  struct lane_piece {
    float value[lane_values];
  };
  static BATON_FN lane_piece piece(const lane_input& in, int j) {
    lane_piece p;
    widen(in.eight[2 * j].word, p.value);
    widen(in.eight[2 * j + 1].word, p.value + 8);
    return p;
  }
  /// The largest of a block on all its pieces: those of a lane, or of two.
  template <class X>
  static BATON_FN void agree(X& x, typename X::template lanes<std::uint32_t> (&most)[pieces]) {
    if constexpr (blocks::facts.block == 2 * values_of_lane) {
      const auto other = x.shuffle_xor(most[0], 1);
      x.each_lane([&](int lane) { most[0][lane] = larger(most[0][lane], other[lane]); });
    } else if constexpr (blocks::facts.block == 2 * lane_values) {
      x.each_lane([&](int lane) { most[0][lane] = most[1][lane] = larger(most[0][lane], most[1][lane]); });
    } else {
      static_assert(blocks::facts.block == lane_values);
    }
  }
  template <class Scale>
  static BATON_FN void store(const lane_piece& p, const Scale& scale, std::uint32_t* to) {
    std::uint32_t word[blocks::words];
    blocks::pack(p.value, scale, word);
    BATON_UNROLL
    for (int w = 0; w < blocks::words; ++w) to[w] = word[w];
  }
};

/// Tokens that a rank has in the format already. A lane has 16 bytes of payload, and the scales of its blocks as one, or the
/// first lane of a block has its scale.
template <token_format Format>
struct given_tokens {
  static constexpr token_format format = Format;
  static constexpr format_facts facts = facts_of(Format);
  static constexpr int source_bits = facts.value_bits;
  static constexpr int lane_values = 8 * static_cast<int>(sizeof(vec16)) / facts.value_bits;
  static constexpr int step_values = warp_lanes * lane_values;
  static constexpr int scale_values = larger(lane_values, facts.block);  // that a load of scales is for
  using scales_of_lane =
      std::conditional_t<facts.scale_bytes == 4, float,
                         std::conditional_t<(lane_values > facts.block), std::uint16_t, std::uint8_t>>;
  static_assert(sizeof(scales_of_lane) ==
                static_cast<std::size_t>(scale_values / facts.block * facts.scale_bytes));

  struct source {
    const vec16* payload;
    const scales_of_lane* scales;
  };
  template <class P>
  static BATON_FN source token(const P& p, int nth) {
    const std::int64_t values = static_cast<std::int64_t>(nth) * p.s.hidden;
    return {static_cast<const vec16*>(p.tokens) + values / lane_values,
            static_cast<const scales_of_lane*>(p.input_scales.data()) + values / scale_values};
  }

  struct lane_input {
    vec16 payload;
    scales_of_lane scales;
  };

  template <exec_context X>
  static BATON_FN void load(X& x, const source& token, int first, int end,
                            typename X::template lanes<lane_input>& in) {
    x.each_lane([&](int lane) {
      const int value = first + lane * lane_values;
      in[lane] = {};
      if (value >= end) return;
      in[lane].payload = x.read(token.payload + value / lane_values);
      if (value % scale_values == 0) in[lane].scales = x.read(token.scales + value / scale_values);
    });
  }
  template <int steps, exec_context X, class Scales, class Sink>
  static BATON_FN void encode(X& x, const typename X::template lanes<lane_input> (&in)[steps], int first,
                              int end, const Scales&, Sink sink) {
    x.each_lane([&](int lane) {
      BATON_UNROLL
      for (int i = 0; i < steps; ++i) {
        const int value = first + i * step_values + lane * lane_values;
        if (value >= end) continue;
        sink.payload(value / 8 * facts.value_bits, in[i][lane].payload);
        if (value % scale_values == 0) sink.scale(value / scale_values, in[i][lane].scales);
      }
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
