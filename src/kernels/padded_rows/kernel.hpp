#pragma once
// Rows that lie one after the other, and places for `capacity` rows of each expert: row first[e] + w is place e * capacity + w,
// for w < min(count[e], capacity).
//
//   pad      places[e, w] = rows[first[e] + w]; scales, transposed: [e, block, w]; source_tokens[e, w]; counts[e] = the rows
//            that are there; ranges[e, s] = w of source rank s's first << 32 | how many
//   unpad    rows[first[e] + w] = places[e, w]
//
//   step     who                     does
//   ranges   each block              row counts and prefix sums into shared memory
//   copy     a warp a step           2 KiB of a row, 16 bytes a lane at a time, all asked for before the first is stored
//   facts    a warp 32 rows and      a lane a row: its source's token, and its scales; neighbours are neighbours on both sides
//            8 scales of each
//   sources  a warp 32 pairs of      a lane a pair: rows of an expert lie by source rank, so two binary searches find a rank's
//            an expert and a rank
//
// No warp waits for another after the ranges are known. Steps are dealt to warps round by round, the three kinds one after the
// other, so that few rows have many warps.
#include <bit>

#include "exec/exec.hpp"
#include "exec/kernel.hpp"
#include "kernels/padded_rows/params.hpp"
#include "kernels/row_formats/range_table.hpp"

namespace baton::padded {

enum class direction { pad, unpad };

template <direction Way>
struct kernel {
  static constexpr kernel_bounds bounds{.max_threads = 256, .blocks_per_sm = 6};

  template <exec_context X>
  static BATON_FN void run(X& x, const params& p) {
    const row_formats::range_plan shared{p.experts};
    const row_formats::range_table ranges{shared.prefix(x), shared.first(x), p.experts, p.max_rows};
    ranges.build(x, p.counts, p.firsts);
    const int rows = ranges.rows(x), warps = x.num_blocks() * x.num_warps();
    const int own = x.block() * x.num_warps() + x.warp();
    const int copies = p.places == nullptr ? 0 : rows * p.steps;
    for (int i = own; i < copies; i += warps) copy(x, p, ranges, i);
    if constexpr (Way == direction::pad) {
      const int across = larger(ceil_div(p.scale_columns, scales_of_item), 1);
      const int facts = ceil_div(rows, warp_lanes) * across, pairs = p.experts * p.num_ranks;
      for (int i = own; i < facts; i += warps)
        tell_rows(x, p, ranges, {i / across * warp_lanes, rows, i % across});
      for (int i = own; i < ceil_div(pairs, warp_lanes); i += warps)
        tell_sources(x, p, ranges, i * warp_lanes, pairs);
    }
  }

 private:
  struct place {
    int expert, within;
  };
  /// Of the nth row of all.
  template <class X>
  static BATON_FN place place_of(X& x, const row_formats::range_table& ranges, int nth) {
    const int expert = last_not_above(x, ranges.prefix, ranges.num, nth);
    return {expert, nth - x.read(ranges.prefix + expert)};
  }
  static BATON_FN std::int64_t number_of(const params& p, place at) {
    return std::int64_t{at.expert} * p.capacity + at.within;
  }

  template <class X>
  static BATON_FN void copy(X& x, const params& p, const row_formats::range_table& ranges, int step) {
    const int nth = p.steps_divider.quotient(step), begin = (step - nth * p.steps) * step_bytes;
    const place at = place_of(x, ranges, nth);
    if (at.within >= p.capacity) return;
    const int row = x.read(ranges.first + at.expert) + at.within;
    std::byte* const in_rows = p.rows + std::int64_t{row} * p.row_bytes;
    std::byte* const in_places = p.places + number_of(p, at) * p.row_bytes;
    const std::byte* const from = Way == direction::pad ? in_rows : in_places;
    std::byte* const to = Way == direction::pad ? in_places : in_rows;
    constexpr int of_lane = step_bytes / warp_lanes / static_cast<int>(sizeof(vec16));
    x.each_lane([&](int lane) {
      vec16 v[of_lane] = {};
      BATON_UNROLL
      for (int i = 0; i < of_lane; ++i) {
        const int byte = begin + (i * warp_lanes + lane) * static_cast<int>(sizeof(vec16));
        if (byte < p.row_bytes) v[i] = x.read(reinterpret_cast<const vec16*>(from + byte));
      }
      BATON_UNROLL
      for (int i = 0; i < of_lane; ++i) {
        const int byte = begin + (i * warp_lanes + lane) * static_cast<int>(sizeof(vec16));
        if (byte < p.row_bytes) x.write(reinterpret_cast<vec16*>(to + byte), v[i]);
      }
    });
  }

  struct part {
    int first, rows, nth;  // of so many rows the 32 from `first` on, and which scales of theirs
  };
  template <class X>
  static BATON_FN void tell_rows(X& x, const params& p, const row_formats::range_table& ranges,
                                 const part& its) {
    x.each_lane([&](int lane) {
      const int nth = its.first + lane;
      if (nth >= its.rows) return;
      const place at = place_of(x, ranges, nth);
      if (at.within >= p.capacity) return;
      const int row = x.read(ranges.first + at.expert) + at.within;
      if (its.nth == 0 && p.tokens_out != nullptr)
        x.write(p.tokens_out + number_of(p, at), x.read(&p.sources[row].token));
      const int begin = its.nth * scales_of_item, end = smaller(begin + scales_of_item, p.scale_columns);
      for (int column = begin; column < end; ++column) {
        const std::int64_t to = (std::int64_t{at.expert} * p.scale_columns + column) * p.capacity + at.within;
        if (p.as_exponents)
          x.write(static_cast<std::uint32_t*>(p.scales_out) + to, exponents_of(x, p, row, 4 * column));
        else
          x.write(static_cast<float*>(p.scales_out) + to, x.read(p.scales + p.scale_at.at(row, column)));
      }
    });
  }

  /// Of four blocks, a byte each.
  template <class X>
  static BATON_FN std::uint32_t exponents_of(X& x, const params& p, int row, int block) {
    std::uint32_t word = 0;
    BATON_UNROLL
    for (int i = 0; i < 4; ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(x.read(p.scales + p.scale_at.at(row, block + i)));
      word |= (bits >> 23 & 0xffu) << (8 * i);
    }
    return word;
  }

  template <class X>
  static BATON_FN void tell_sources(X& x, const params& p, const row_formats::range_table& ranges, int first,
                                    int pairs) {
    x.each_lane([&](int lane) {
      const int pair = first + lane;
      if (pair >= pairs) return;
      const int expert = pair / p.num_ranks, rank = pair - expert * p.num_ranks;
      const int all = x.read(ranges.prefix + expert + 1) - x.read(ranges.prefix + expert);
      const int count = smaller(all, p.capacity);
      if (rank == 0 && p.counts_out != nullptr) x.write(p.counts_out + expert, count);
      if (p.ranges_out == nullptr) return;
      const source_info* const its = p.sources + x.read(ranges.first + expert);
      const int begin = first_of(x, its, count, rank), end = first_of(x, its, count, rank + 1);
      x.write(p.ranges_out + pair, std::int64_t{begin} << 32 | (end - begin));
    });
  }

  /// The first of `count` rows that is of `rank` or of one after it.
  template <class X>
  static BATON_FN int first_of(X& x, const source_info* rows, int count, int rank) {
    int low = 0, high = count;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (x.read(&rows[middle].rank) < rank)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }
};

}  // namespace baton::padded
