#pragma once
// What layout per_rank keeps in a rank's window and in its own memory: one constexpr description for host and kernels.
// E, R, T, K, H as in shape.hpp.
//
//   cell          index                               holds                                        written by
//   ids           [epoch & 1][source][id line]        56 ids of 16 bits; tokens of the source;     every rank to every rank
//                                                     a check over these and the round
//   tokens        [epoch & 1][source][token][unit]    8 lines: 896 bytes of payload, their         the source, to ranks of the
//                                                     scales in 7 words, 8 router weights; or      token's experts
//                                                     768 of e2m1, with their scales behind them
//   sums          [rank of the experts][token][unit]  4 lines: 240 columns of bf16; or 3 blocks    ranks of the token's experts
//                                                     of 128 e4m3, their scales in 3 words
//
// An id travels as its number, or as no_id; one that no rank has an expert for reaches nobody.
//
// By flags (by_flags.hpp) tokens and sums lie the same; instead of the lines of ids, and behind the sums, there are:
//
//   ids           [epoch & 1][source][access][lane]   words of 64 bits: four ids of 11 bits, in    every rank to every rank
//                                                     the last lane's the source's tokens
//   cleared       [epoch & 1][source]                 a released flag: what came before this       every rank to every rank
//                                                     round is cleared
#include "base/bits.hpp"
#include "kernels/ep/received.hpp"
#include "protocol/line.hpp"

namespace baton::ep::per_rank {

inline constexpr int id_bytes = 2;
inline constexpr int chunks_of_line = lanes_of_line - 1;  // of 16 bytes, before the one with the flag
inline constexpr int ids_of_chunk = static_cast<int>(sizeof(vec16)) / id_bytes;
inline constexpr int ids_of_line = chunks_of_line * ids_of_chunk;
inline constexpr int ids_of_access = lines_of_access * ids_of_line;
inline constexpr std::uint32_t no_id = 0x8000;

inline constexpr int unit_accesses = 2;  // of a token's unit
inline constexpr int chunks_of_access = lines_of_access * chunks_of_line;
inline constexpr int unit_data = unit_accesses * chunks_of_access * static_cast<int>(sizeof(vec16));
inline constexpr int unit_bytes = unit_accesses * line_access_bytes;
inline constexpr int unit_weights = unit_accesses * lines_of_access;

/// What a unit takes of a token. Scales lie in the ends of its lines, a word in each, where there is room for them; else in its
/// data, behind its payload.
struct unit_room {
  int payload;      // bytes
  int scale_words;  // of its scales
  bool scales_in_data;
  int payload_of_scale;  // bytes, for a byte of scales

  constexpr explicit unit_room(token_format format)
      : payload{unit_data},
        scale_words{},
        scales_in_data{},
        payload_of_scale{payload_of_scale_byte(facts_of(format))} {
    constexpr int least_data = 768;  // whole blocks, and whole vec16s of scales, of every format
    if (facts_of(format).block == 0) return;
    scales_in_data = payload / payload_of_scale > 4 * unit_accesses * lines_of_access;
    if (scales_in_data) payload = least_data;
    scale_words = payload / payload_of_scale / 4;
  }
};

// Warps of a block: more would not leave threads the registers they need. Combine of two ranks makes do with 64 registers,
// where it has so much to do that more warps are worth it.
inline constexpr int max_warps = 24, max_combine_warps = 20, max_pair_combine_warps = 32;
/// Of a block of combine for so many ranks; 0: for any. Measured (docs/decisions/0017).
constexpr int combine_warps_of(int known_ranks) {
  return known_ranks == 4 ? 24 : max_combine_warps;
}

inline constexpr int sum_columns = 240;  // of a unit of sums: 15 chunks of 8 for each two lines
inline constexpr int blocks_of_sum = 3;  // of a unit of sums in block FP8
inline constexpr int fp8_sum_columns = blocks_of_sum * facts_of(token_format::blockwise_fp8).block;

/// The choice of a received token that is here: its row, and what its expert's output is weighted with.
struct alignas(8) entry {
  std::int32_t row;
  float weight;
};
/// A token's entries follow each other, so that combine need not look for them: which one is choice k's, of those in `here`.
BATON_FN int nth_entry(std::uint32_t here, int k) {
  return count_bits(here & ((1u << k) - 1));
}

/// Rounds that a rank has begun to receive and has completed. No kernel writes the one it reads, so that a kernel's
/// blocks need not agree on when. And who is absent, which no kernel of a round writes.
struct round_epochs {
  std::uint64_t dispatched;
  std::uint64_t combined;
  std::uint64_t absent;  // bit r: rank r
};

/// Offsets into a rank's window, each on a line, and the sizes that kernels index with.
struct cells {
  int id_accesses;  // of one source
  int token_units;  // of a token
  int sum_units;
  int max_rows;
  rows_taken taken;  // by an expert
  divider by_top_k, by_id_accesses, by_token_units, by_sum_units;
  int first_expert[max_near_ranks + 1];  // of each rank, and behind the last
  int first_here, experts_here;          // of this rank
  std::uint32_t tokens, sums;            // first line; ids begin at 0
  std::uint32_t lines;

  constexpr explicit cells(const shape& s)
      : id_accesses{larger(1, ceil_div(s.max_tokens * s.top_k, ids_of_access))},
        token_units{larger(ceil_div(s.payload_bytes(), unit_room{s.format}.payload),
                           ceil_div(s.top_k, unit_weights))},
        sum_units{ceil_div(s.hidden, s.fp8_sums ? fp8_sum_columns : sum_columns)},
        max_rows{s.max_rows()},
        taken{s.taken()},
        by_top_k{larger(1, s.top_k)},
        by_id_accesses{id_accesses},
        by_token_units{token_units},
        by_sum_units{larger(1, sum_units)},
        first_expert{},
        first_here{s.first_expert(s.rank)},
        experts_here{s.num_local_experts(s.rank)},
        tokens{2 * lines_of(s.num_ranks, id_accesses, lines_of_access)},
        sums{tokens + 2 * lines_of(s.num_ranks, s.max_tokens * token_units, unit_accesses * lines_of_access)},
        lines{sums + lines_of(s.num_ranks, s.max_tokens * sum_units, lines_of_access)} {
    s.list_first_experts(first_expert);
  }

  constexpr std::size_t bytes() const { return at(lines); }
  constexpr std::size_t ids_at(const shape& s, std::uint64_t epoch, int source, int access) const {
    return at(lines_of(of_round(s, epoch, source), id_accesses, lines_of_access) +
              lines_of(access, 1, lines_of_access));
  }
  /// `unit` counts through all tokens of the source.
  constexpr std::size_t token_at(const shape& s, std::uint64_t epoch, int source, int unit) const {
    const std::uint32_t nth = lines_of(of_round(s, epoch, source), s.max_tokens * token_units, 1);
    return at(tokens + (nth + static_cast<std::uint32_t>(unit)) * unit_accesses * lines_of_access);
  }
  /// `unit` counts through all tokens.
  constexpr std::size_t sum_at(const shape& s, int from, int unit) const {
    return at(sums + (lines_of(from, s.max_tokens * sum_units, 1) + static_cast<std::uint32_t>(unit)) *
                         lines_of_access);
  }

 protected:
  /// Counted in lines, numbers stay small enough for 32 bits: why_not sees to it.
  static constexpr std::uint32_t lines_of(int a, int b, int c) {
    return static_cast<std::uint32_t>(a) * static_cast<std::uint32_t>(b) * static_cast<std::uint32_t>(c);
  }
  static constexpr std::size_t at(std::uint32_t line) { return std::size_t{line} * line_bytes; }
  static constexpr int of_round(const shape& s, std::uint64_t epoch, int source) {
    return (epoch & 1) != 0 ? s.num_ranks + source : source;
  }
};

inline constexpr int ids_of_word = 4, word_id_bits = 11;
inline constexpr int count_lane = warp_lanes - 1;  // says the source's tokens
inline constexpr int ids_of_word_access = count_lane * ids_of_word;
inline constexpr std::uint32_t no_word_id = (1u << word_id_bits) - 1;
static_assert(max_experts <= static_cast<int>(no_word_id));

struct flag_cells : cells {
  std::uint32_t cleared;  // first line

  constexpr explicit flag_cells(const shape& s) : cells{s}, cleared{} {
    const std::uint32_t ids_before = tokens;
    id_accesses = larger(1, ceil_div(s.max_tokens * s.top_k, ids_of_word_access));
    by_id_accesses = divider{id_accesses};
    tokens = lines_of_words(lines_of(2 * s.num_ranks, id_accesses, warp_lanes));
    sums = sums - ids_before + tokens;
    cleared = lines - ids_before + tokens;
    lines = cleared + lines_of_words(lines_of(2, s.num_ranks, 1));
  }

  /// Of the access's first lane.
  constexpr std::size_t ids_at(const shape& s, std::uint64_t epoch, int source, int access) const {
    return word_at(
        0, lines_of(of_round(s, epoch, source), id_accesses, warp_lanes) + lines_of(access, warp_lanes, 1));
  }
  constexpr std::size_t cleared_at(const shape& s, std::uint64_t epoch, int source) const {
    return word_at(cleared, static_cast<std::uint32_t>(of_round(s, epoch, source)));
  }

 private:
  static constexpr std::uint32_t lines_of_words(std::uint32_t words) {
    constexpr std::uint32_t each = line_bytes / sizeof(std::uint64_t);
    return (words + each - 1) / each;
  }
  static constexpr std::size_t word_at(std::uint32_t first_line, std::uint32_t nth) {
    return at(first_line) + std::size_t{nth} * sizeof(std::uint64_t);
  }
};

/// Offsets into a rank's own memory.
struct local_cells : local_plan, received_layout {
  std::size_t epochs;        // round_epochs
  std::size_t errors;        // device_errors
  std::size_t token_counts;  // i32 [R]: tokens of each rank in this round
  std::size_t rank_sets;     // u32 [T]: bit r: rank r has an expert of the token
  std::size_t choices;       // u32 [R, T]: bit k: the k-th choice of that rank's token is here
  std::size_t entries;       // entry [R, T, K]: of choices that are here, one behind the other (nth_entry)
  std::size_t units_taken;   // u32: of the sums that combine sends, by all its blocks (T1 of combine.hpp)
  std::size_t own_sums;      // f32 [T, H]: what the split form brings from combine_async to combine_wait

  constexpr explicit local_cells(const shape& s) : received_layout{*this, s} {
    const auto max_tokens = static_cast<std::size_t>(s.max_tokens),
               ranks = static_cast<std::size_t>(s.num_ranks);
    epochs = take(sizeof(round_epochs));
    errors = take(sizeof(device_errors));
    token_counts = take(4 * ranks);
    rank_sets = take(4 * max_tokens);
    choices = take(4 * ranks * max_tokens);
    entries = take(sizeof(entry) * ranks * max_tokens * static_cast<std::size_t>(s.top_k));
    units_taken = take(sizeof(std::uint32_t));
    own_sums = take(4 * max_tokens * static_cast<std::size_t>(s.hidden));
  }
};

}  // namespace baton::ep::per_rank
