#pragma once
// Which row each received token gets, found by every block for itself from all ranks' ids: bits say which tokens of which
// rank list an expert; rows of an expert are its bits in order, that is by source rank and token.
//
//   row(expert, source, token) = first row of the expert + bits before (source, token)
//
// A token that lists an expert twice has one row there, of its first such choice.
#include "base/bits.hpp"
#include "exec/collectives.hpp"
#include "exec/shared_plan.hpp"
#include "kernels/ep/per_rank/cells.hpp"

namespace baton::ep::per_rank {

/// Its sizes for one communicator.
struct row_index_shape {
  int rank_words;  // 32-bit words of bits for one source
  int used_words;  // for all, a multiple of 4
  int words;       // with padding: an odd number of 16 bytes, so that neighbouring experts do not share banks
  int id_stride;   // ids of one source

  constexpr explicit row_index_shape(const shape& s)
      : rank_words{ceil_div(s.max_tokens, 32)},
        used_words{align_up(s.num_ranks * rank_words, 4)},
        words{(used_words / 4 | 1) * 4},
        id_stride{larger(1, ceil_div(s.max_tokens * s.top_k, ids_of_access)) * ids_of_access} {}
};

struct row_index {
  const shape& s;
  const cells& window;
  row_index_shape size;
  std::uint32_t* bits;      // [local experts, words]
  std::int32_t* first_row;  // [local experts, words]: of the word's lowest bit
  std::uint16_t* ids;       // [R, id_stride]
  std::int32_t* counts;     // [R]: tokens

  /// Those of this rank.
  BATON_FN int first_expert() const { return window.first_expert[s.rank]; }
  BATON_FN int num_experts() const { return window.first_expert[s.rank + 1] - window.first_expert[s.rank]; }

  /// One lane: eight ids of `source` from index `first` on are known; ids past its `end` are none.
  template <class X>
  BATON_FN void note(X& x, int source, int first, int end, const vec16& chunk) const {
    x.write(reinterpret_cast<vec16*>(ids + source * size.id_stride + first), chunk);
    std::uint32_t* of_source = bits + source * size.rank_words;
    if (s.top_k == ids_of_chunk) {  // one token's
      const int token = first / ids_of_chunk;
      BATON_UNROLL
      for (int i = 0; i < ids_of_chunk; ++i)
        note_id(x, of_source, token, chunk.word[i / 2] >> (16 * (i % 2)) & 0xffffu);
      return;
    }
    int token = window.by_top_k.quotient(first), k = first - token * s.top_k;
    BATON_UNROLL
    for (int i = 0; i < ids_of_chunk; ++i) {
      if (first + i < end) note_id(x, of_source, token, chunk.word[i / 2] >> (16 * (i % 2)) & 0xffffu);
      if (++k == s.top_k) k = 0, ++token;
    }
  }

  /// One lane: rows of a local expert.
  template <class X>
  BATON_FN int rows_of(X& x, int local) const {
    int rows = 0;
    BATON_ROLLED
    for (int w = 0; w < size.used_words; w += 4) {
      const vec16 four = x.read(reinterpret_cast<const vec16*>(bits + local * size.words + w));
      BATON_UNROLL
      for (const std::uint32_t word : four.word) rows += count_bits(word);
    }
    return rows;
  }
  /// One lane: numbers them from `row` on; the row behind them.
  template <class X>
  BATON_FN int number(X& x, int local, int row) const {
    BATON_ROLLED
    for (int w = 0; w < size.used_words; w += 4) {
      const vec16 four = x.read(reinterpret_cast<const vec16*>(bits + local * size.words + w));
      vec16 first;
      BATON_UNROLL
      for (int i = 0; i < 4; ++i) {
        first.word[i] = static_cast<std::uint32_t>(row);
        row += count_bits(four.word[i]);
      }
      x.write(reinterpret_cast<vec16*>(first_row + local * size.words + w), first);
    }
    return row;
  }

  /// The row of a choice; -1: another rank's expert, or none.
  template <class X>
  BATON_FN std::int32_t find(X& x, int source, int token, int k) const {
    const std::uint32_t id = x.read(ids + source * size.id_stride + token * s.top_k + k);
    const std::uint32_t local = id - static_cast<std::uint32_t>(first_expert());
    if (local >= static_cast<std::uint32_t>(num_experts())) return -1;
    const int word = static_cast<int>(local) * size.words + source * size.rank_words + (token >> 5);
    const std::uint32_t before = x.read(bits + word) & ((1u << (token & 31)) - 1);
    return x.read(first_row + word) + count_bits(before);
  }

 private:
  template <class X>
  BATON_FN void note_id(X& x, std::uint32_t* of_source, int token, std::uint32_t id) const {
    const std::uint32_t local = id - static_cast<std::uint32_t>(first_expert());
    if (local >= static_cast<std::uint32_t>(num_experts())) return;
    std::uint32_t* word = of_source + static_cast<int>(local) * size.words + (token >> 5);
    x.template fetch_or<order::relaxed, scope::block>(word, 1u << (token & 31));
  }
};

}  // namespace baton::ep::per_rank
