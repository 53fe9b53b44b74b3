#pragma once
// out[r, i] = encode(value(r, i)) for the rows r of all ranges; token_format.hpp has the rules of encode.
//
//   source        value(r, i)
//   bf16_values   in[r, i]
//   fp32_values   in[r, i]
//   silu_values   silu(gate[r, i]) * up[r, i], gate | up = in[r, :]
//   stored_rows   what row r of a dispatch stands for (stored_rows.hpp)
//
//   step      who              does
//   ranges    each block       row counts and prefix sums into shared memory, if rows are in ranges
//   encode    a warp a step    reads a step's values once, 16 consecutive ones a lane (8 for bf16); the lanes of a block of
//                              values agree on its largest; each scales, rounds and stores
//
// No warp waits for another after the ranges are known. Memory is what it takes: many warps an SM, each with one step in flight.
#include <bit>

#include "base/block_format.hpp"
#include "base/silu.hpp"
#include "exec/exec.hpp"
#include "exec/kernel.hpp"
#include "exec/shared_plan.hpp"
#include "kernels/row_formats/params.hpp"
#include "kernels/row_formats/range_table.hpp"

namespace baton::row_formats {

/// Eight values from 16 bytes of bf16.
template <exec_context X>
BATON_FN void read_bf16(X& x, const bfloat16* from, float* to) {
  widen(x.read(reinterpret_cast<const vec16*>(from)).word, to);
}

struct bf16_values {
  template <class X>
  static BATON_FN void load(X& x, const params& p, std::int64_t row, int column, float* eight) {
    read_bf16(x, static_cast<const bfloat16*>(p.in) + row * p.columns + column, eight);
  }
};

struct fp32_values {
  template <class X>
  static BATON_FN void load(X& x, const params& p, std::int64_t row, int column, float* eight) {
    const auto* from =
        reinterpret_cast<const vec16*>(static_cast<const float*>(p.in) + row * p.columns + column);
    const vec16 first = x.read(from), second = x.read(from + 1);
    BATON_UNROLL
    for (int i = 0; i < 4; ++i) {
      eight[i] = std::bit_cast<float>(first.word[i]);
      eight[4 + i] = std::bit_cast<float>(second.word[i]);
    }
  }
};

struct silu_values {
  template <class X>
  static BATON_FN void load(X& x, const params& p, std::int64_t row, int column, float* eight) {
    const bfloat16* from = static_cast<const bfloat16*>(p.in) + row * 2 * p.columns + column;
    float up[8];
    read_bf16(x, from, eight);
    read_bf16(x, from + p.columns, up);
    BATON_UNROLL
    for (int i = 0; i < 8; ++i) eight[i] = silu(eight[i]) * up[i];
  }
};

/// Values of a lane in a step.
constexpr int values_of_lane(token_format format) {
  return format == token_format::bf16 ? 8 : lane_values;
}
constexpr int values_of_step(token_format format) {
  return values_of_lane(format) * warp_lanes;
}

template <class Source, token_format Format>
struct row_format_kernel {
  static constexpr kernel_bounds bounds{.max_threads = 256,
                                        .blocks_per_sm = facts_of(Format).value_bits == 4 ? 4 : 6};
  static constexpr token_format format = Format;

  template <exec_context X>
  static BATON_FN void run(X& x, const params& p) {
    const range_plan shared{p.num_ranges};
    const range_table ranges{shared.prefix(x), shared.first(x), p.num_ranges, p.places.rows};
    if (p.num_ranges > 0) ranges.build(x, p.counts, p.firsts);
    tensor_scaling tensor;
    if (Format == token_format::nvfp4 && p.tensor_scale != nullptr)
      tensor = tensor_scaling_of(x.from_one([&] { return x.read(p.tensor_scale); }));
    const int steps = ranges.rows(x) * p.steps, warps = x.num_blocks() * x.num_warps();
    for (int i = x.block() * x.num_warps() + x.warp(); i < steps; i += warps) {
      const int nth = p.steps_divider.quotient(i);
      encode(x, p, tensor, ranges.at(x, nth), (i - nth * p.steps) * values_of_step(Format));
    }
  }

 private:
  struct lane_input {
    float value[values_of_lane(Format)];
  };

  /// The values of `row` from `begin` on that make up a step.
  template <class X>
  static BATON_FN void encode(X& x, const params& p, const tensor_scaling& tensor, int row, int begin) {
    typename X::template lanes<lane_input> in;
    x.each_lane([&](int lane) {
      const int column = begin + lane * values_of_lane(Format);
      in[lane] = {};
      if (column >= p.columns) return;
      BATON_UNROLL
      for (int i = 0; i < values_of_lane(Format); i += 8)
        Source::load(x, p, row, column + i, in[lane].value + i);
    });
    if constexpr (Format == token_format::bf16)
      store_bf16(x, p, in, row, begin);
    else
      store_blocks(x, p, in, tensor, {row, begin});
  }

  template <class X>
  static BATON_FN void store_bf16(X& x, const params& p, const typename X::template lanes<lane_input>& in,
                                  int row, int begin) {
    x.each_lane([&](int lane) {
      const int column = begin + lane * values_of_lane(Format);
      if (column >= p.columns) return;
      const float* v = in[lane].value;
      auto* to = static_cast<bfloat16*>(p.values) + std::int64_t{row} * p.columns + column;
      x.write(reinterpret_cast<vec16*>(to), vec16{pack_bf16(v[0], v[1]), pack_bf16(v[2], v[3]),
                                                  pack_bf16(v[4], v[5]), pack_bf16(v[6], v[7])});
    });
  }

  struct place {
    int row, begin;
  };
  template <class X>
  static BATON_FN void store_blocks(X& x, const params& p, const typename X::template lanes<lane_input>& in,
                                    const tensor_scaling& tensor, place at) {
    using blocks = block_format<Format>;
    typename X::template lanes<std::uint32_t> most;
    x.each_lane([&](int lane) { most[lane] = blocks::largest(in[lane].value); });
    for (int mask = 1; mask < blocks::lanes_per_block; mask *= 2) {
      const auto other = x.shuffle_xor(most, mask);
      x.each_lane([&](int lane) { most[lane] = larger(most[lane], other[lane]); });
    }
    x.each_lane([&](int lane) {
      const int column = at.begin + lane * lane_values;
      if (column >= p.columns) return;
      const auto scale = blocks::scale_of(most[lane], tensor);
      typename blocks::packed word;
      blocks::pack(in[lane].value, scale, word.word);
      auto* to = static_cast<std::byte*>(p.values) +
                 (std::int64_t{at.row} * p.columns + column) / 8 * blocks::facts.value_bits;
      x.write(reinterpret_cast<typename blocks::packed*>(to), word);
      if (column % blocks::facts.block == 0)
        x.write(static_cast<typename blocks::stored*>(p.scales) +
                    p.places.at(at.row, column / blocks::facts.block),
                scale.stored);
    });
  }
};

}  // namespace baton::row_formats
