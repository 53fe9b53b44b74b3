#pragma once
// What becomes of a part of a token in combine: the weighted sum of its rows on this rank and, on its own rank, the sum of
// that, of what other ranks made of it and, last, of what shared experts did. A lane has 8 columns of each 256.
//
//   set_sums       up to 32 addends: of one after the other some columns, the next ones' on their way. The usual case
//                  (set_sums.hpp)
//   sum_in_order   any number of them: also where this rank's part comes from memory
//
// Both are templates on the format of other ranks' sums. What finishes a sum is called by one lane each, or by the warp with all
// of a step (is_of_warp).
#include "base/add_weighted.hpp"
#include "base/bits.hpp"
#include "base/block_format.hpp"
#include "kernels/ep/per_rank_chunks/plan.hpp"

namespace baton::ep::per_rank_chunks {

inline constexpr int columns_of_lane = static_cast<int>(sizeof(vec16) / sizeof(bfloat16));

using fp8_blocks = block_format<token_format::blockwise_fp8>;
inline constexpr int lanes_of_block = fp8_blocks::facts.block / columns_of_lane;

/// Of a token, in vec16s of eight.
struct column_range {
  int begin, end;
  BATON_FN column_range(const shape& s, const cells& window, int part)
      : begin{part * window.sum_columns / columns_of_lane},
        end{smaller(begin + window.sum_columns / columns_of_lane, s.hidden / columns_of_lane)} {}
  /// A lane's in a step, or the last one where the range has ended: such a lane loads, but does not finish.
  BATON_FN int place(int first, int step, int lane) const {
    return smaller(first + step * warp_lanes + lane, end - 1);
  }
  BATON_FN bool has(int first, int step, int lane) const { return first + step * warp_lanes + lane < end; }
};

/// Lanes' columns of a step, in fp32.
template <class X>
struct step_sums {
  struct sums {
    float at[columns_of_lane];
  };
  typename X::template lanes<sums> of{};
};

/// Rows, where lanes say: counted in vec16s from `base`, so that loads know that they are of global memory.
template <class X>
struct weighted_rows {
  const vec16* base;
  typename X::template lanes<std::uint32_t> first;
  typename X::template lanes<float> weight;
};

/// A lane's eight columns of another rank's sum: bf16, or two words of e4m3 and their scale.
template <token_format Sums, class X>
BATON_FN vec16 read_sum(X& x, const column_range& c, const vec16* from, int place) {
  if constexpr (Sums == token_format::bf16) {
    return x.read(from + place);
  } else {
    const auto* values = reinterpret_cast<const std::uint64_t*>(from);  // of the part
    const auto* scales = reinterpret_cast<const float*>(values + (c.end - c.begin));
    const std::uint64_t eight = x.read(values + (place - c.begin));
    const float scale = x.read(scales + (place - c.begin) / lanes_of_block);
    return {{static_cast<std::uint32_t>(eight), static_cast<std::uint32_t>(eight >> 32),
             std::bit_cast<std::uint32_t>(scale), 0}};
  }
}
template <token_format Sums>
BATON_FN void add_sum(float (&sum)[columns_of_lane], float weight, const vec16& v) {
  if constexpr (Sums == token_format::bf16) {
    add_weighted(sum, weight, v.word);
  } else {
    add_scaled_e4m3(sum, std::bit_cast<float>(v.word[2]), v.word[0]);
    add_scaled_e4m3(sum + 4, std::bit_cast<float>(v.word[2]), v.word[1]);
  }
}

/// The n lowest of `which`, which it takes away.
template <int n, token_format Sums, class X>
BATON_FN void add_some(X& x, const column_range& c, int first, std::uint32_t& which,
                       const weighted_rows<X>& rows, step_sums<X>& sum) {
  typename X::template lanes<vec16> v[n];
  float weight[n];
  BATON_UNROLL
  for (int i = 0; i < n; ++i, which &= which - 1) {
    const vec16* from = rows.base + x.broadcast(rows.first, lowest_bit(which));
    weight[i] = x.broadcast(rows.weight, lowest_bit(which));
    x.each_lane([&](int lane) { v[i][lane] = read_sum<Sums>(x, c, from, c.place(first, 0, lane)); });
  }
  x.each_lane([&](int lane) {
    BATON_UNROLL
    for (int i = 0; i < n; ++i) add_sum<Sums>(sum.of[lane].at, weight[i], v[i][lane]);
  });
}

/// All of `which`, ascending.
template <token_format Sums, class X>
BATON_FN void add_all(X& x, const column_range& c, int first, std::uint32_t which,
                      const weighted_rows<X>& rows, step_sums<X>& sum) {
  while (which != 0) {
    const int left = count_bits(which);
    if (left >= 4)
      add_some<4, Sums>(x, c, first, which, rows, sum);
    else if (left >= 2)
      add_some<2, Sums>(x, c, first, which, rows, sum);
    else
      add_some<1, Sums>(x, c, first, which, rows, sum);
  }
}

/// What is added up: this rank's rows, by choice, what other ranks made of the token, by rank, and its row of shared experts.
template <class X>
struct addends {
  std::uint32_t choices = 0, below = 0, above = 0;  // ranks below this one and above
  weighted_rows<X> rows{}, sums{};
  const float* own = nullptr;     // not null: this rank's part, summed before; no choices then
  const vec16* shared = nullptr;  // the last one; null: none
  float* kept = nullptr;          // [columns_of_set], the warp's own, of shared memory; for are_apart()
  BATON_FN int count() const {
    return count_bits(choices) + count_bits(below | above) + (shared != nullptr ? 1 : 0);
  }
  /// Whether this rank's rows have to be summed apart from those of the ranks below. Else they may come first, as two numbers
  /// can be added either way round.
  BATON_FN bool are_apart() const { return choices != 0 && (below & (below - 1)) != 0; }
};

/// Whether a warp finishes sums together: finish(first vec16 of a step, its sums), at the end of the range for lanes without any.
template <class Finish>
concept is_of_warp = requires {
  Finish::is_of_warp;
};

/// One warp: finish(vec16 of the token, 8 sums), by one lane each or by the warp, for all that the range has: ((ranks below) +
/// this rank) + ranks above, of any number of addends.
template <token_format Sums, class X, class Finish>
BATON_FN void sum_in_order(X& x, const column_range& c, const addends<X>& all, Finish finish) {
  BATON_ROLLED
  for (int first = c.begin; first < c.end; first += warp_lanes) {
    step_sums<X> own, total;
    if (all.own != nullptr)
      x.each_lane([&](int lane) {
        const float* from = all.own + static_cast<std::int64_t>(c.place(first, 0, lane)) * columns_of_lane;
        for (int i = 0; i < columns_of_lane; ++i) own.of[lane].at[i] = x.read(from + i);
      });
    add_all<token_format::bf16>(x, c, first, all.choices, all.rows, own);
    add_all<Sums>(x, c, first, all.below, all.sums, total);
    x.each_lane([&](int lane) {
      for (int i = 0; i < columns_of_lane; ++i) total.of[lane].at[i] += own.of[lane].at[i];
    });
    add_all<Sums>(x, c, first, all.above, all.sums, total);
    x.each_lane([&](int lane) {
      if (all.shared != nullptr)
        add_weighted(total.of[lane].at, shared_rows::weight,
                     x.read(all.shared + c.place(first, 0, lane)).word);
      if constexpr (!is_of_warp<Finish>)
        if (c.has(first, 0, lane)) finish(c.place(first, 0, lane), total.of[lane].at);
    });
    if constexpr (is_of_warp<Finish>) finish(first, total);
  }
}

}  // namespace baton::ep::per_rank_chunks
