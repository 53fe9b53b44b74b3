#pragma once
// What layout per_rank keeps in a rank's window and in its own memory when tokens travel in chunks: one constexpr
// description for host and kernels. E, R, T, K, H as in shape.hpp.
//
//   cell          index                               holds                                        written by
//   ids           [epoch & 1][source][id line]        as in per_rank/cells.hpp                     every rank to every rank
//   tokens        [epoch & 1][source][token]          payload, scales and router weights           the source, to ranks of the
//   token_words   [epoch & 1][source][chunk]          arrival words: tokens of the chunk that      token's experts
//                                                     were sent
//   sums          [rank of the experts][token]        H bf16; or of each part e4m3 and, behind     ranks of the token's experts
//                                                     them, in whole 16 bytes, their scales
//   sum_words     [rank of the experts][token][part]  arrival words: the sum's columns of a part
//
// A token is sent in pieces of its payload, each with its scales; the last one takes the weights too. A chunk is a few
// consecutive tokens of a source: what one warp sends, what arrives at once and what one warp receives. A tile is a few chunks:
// what one warp indexes.
//
//   arrival word of a chunk or a sum   seen by who awaits round n
//   of a round before n                not here yet
//   of round n, as many as ids say     here: whatever it tells of is done
//   of round n, another number         refused
//   anything else                      never ends a wait; reported with the word as seen
//
//   rank s                                              rank d
//     all ids of s, in lines                 -- L1 ->     awaits them; finds rows together (T1, T2)
//     copies of a chunk, awaited; publish    -- T3 ->     awaits the word; copies to rows (R1, R2)
//                                                         experts, when dispatch has ended (K1)
//     awaits the word; adds up               <- S1 --     a part's sum; publish
//
// Edges stand where they are made: L1 in protocol/line.hpp, T1 and T2 in tile_index.hpp, T3 and R3 in send.hpp, R1 and R2 in
// warp_ring.hpp, D1 in plan.hpp, S1 in token_parts.hpp, R4 to R6 and S2 in team_combine.hpp. And:
// K1: a kernel's plain writes and awaited copies happen before the next kernel's reads: await_dependencies. Every warp awaits
//     its copies before it ends.
// L2: cells may be used again as per_rank/id_lines.hpp says of lines: two copies of ids, tokens and their words, one of sums and
//     theirs.
// Start:    all bytes 0; the first round is 1, which round_epochs counts. No word of a round is a word of round 0.
// Progress: ids are sent before anything is awaited; who sends waits for nothing but its own copies; tiles as tile_index.hpp
//           says; sums are sent before others' are awaited, or by other warps of the block.
// Checked:  checks/per_rank_chunks.cpp has the bounds and the planted bugs.
#include "kernels/ep/per_rank/cells.hpp"

namespace baton::ep::per_rank_chunks {

using per_rank::entry;
using per_rank::round_epochs;

/// Combine's, where a block's warps work in teams (team_combine.hpp).
struct team_roles {
  static constexpr int others = 3;  // warps of a team beside adders
  int teams = 0;                    // of a block; 0: its warps do not
  int stages = 1;
  int ahead = 1;    // parts that are sent before this rank's first
  int at_once = 1;  // sums that are told of with one fence, at most `ahead` + 1; what is launched takes one
  constexpr int warps(int adders) const { return teams * (others + adders); }
};

inline constexpr int team_adders = 4, most_teams = 2;
inline constexpr int most_team_columns = 7168;  // of a sum: what a team's adders have registers for

/// Where blocks find what to send next, and which sums to receive: in shares of their own, or wherever the next of all is.
enum class taking : std::uint8_t { as_measured, of_shares, of_all };

/// What the ranks of a communicator agree on beside its shape, and how its kernels' blocks are made up. Dispatch's own are those
/// that were measured fastest where tokens lie by expert; settings_for() has those for by token.
struct chunk_settings {
  int chunk_tokens = 1;     // a power of two
  int tile_tokens = 16;     // a power of two up to 32, at least a chunk
  int piece_bytes = 8192;   // of a token's payload at most, a multiple of 512
  int dispatch_warps = 14;  // up to max_warps; of them
  int dispatch_senders = 6;
  int dispatch_stages = 2;  // pieces that a warp has room for, where there is room for all warps'
  int told_at_once = 0;     // chunks, with one fence; 0: as measured fastest
  int combine_warps = 16;   // up to max_combine_warps; of them
  int combine_senders = 8;
  int sums_at_once = 0;  // told of with one fence; 0: as measured fastest
  taking takes = taking::as_measured;
  int least_sums = 2048;  // parts of a rank's sums: few tokens are divided, so that each warp has one
  int team_sums =
      8192;  // of a rank's tokens at most, from which on combine's warps work in teams where sums are in FP8
  team_roles teams{};  // of none: as measured fastest
};

/// Where tokens stay where they arrive, no warp has pieces of them on their way to rows: more warps with room for one each, and
/// most of them senders. Where both of two ranks have many blocks, a warp makes few sums, and the last ones keep others waiting:
/// a token's is in parts unless there are 8,192 of them (measured on 2 H100: docs/decisions/0020).
constexpr chunk_settings settings_for(const shape& s, bool has_many_blocks = false) {
  chunk_settings all;
  if (has_many_blocks && s.num_ranks == 2 && !s.fp8_sums && s.hidden >= 4096) all.least_sums = 8192;
  if (s.by_token()) all.dispatch_warps = 16, all.dispatch_senders = 10, all.dispatch_stages = 1;
  return all;
}

// Of a block: more would not leave threads the registers they need.
inline constexpr int max_warps = 16, max_combine_warps = 16, max_team_warps = most_teams * (3 + team_adders);
inline constexpr int sum_step = 8 * warp_lanes;  // columns of a sum that a warp loads at once
inline constexpr int most_sum_parts = 4;         // of a token

/// A piece within its token: some of the payload, and what lies behind all of that. Where it is staged the two follow each other.
struct piece_span {
  int begin, bytes;
  int rest, rest_bytes;  // its scales, and behind those of the last one weights
  constexpr bool is_one() const { return rest_bytes == 0 || rest == begin + bytes; }
};

/// Of so many columns of a sum, a part's at most.
constexpr int sum_bytes_of(token_format sums, int columns) {
  const format_facts facts = facts_of(sums);
  if (facts.block == 0) return 2 * columns;
  return facts.row_bytes(columns) +
         align_up(facts.row_scales(columns) * facts.scale_bytes, static_cast<int>(sizeof(vec16)));
}

/// Offsets into a rank's window, and the sizes that kernels index with.
struct cells {
  int chunk_tokens, tile_tokens;
  int chunks, tiles;                     // of one source
  int id_accesses;                       // of one source
  int pieces;                            // of a token
  int piece_payload;                     // of each piece but the last
  int payload, weights_at, token_bytes;  // of a token
  int piece_room;                        // for any piece
  int sum_parts;                         // of a token's sum
  int sum_columns;                       // of a part
  int max_rows;
  rows_taken taken;  // by an expert
  int expert_slots;  // of this rank, for whole vec16s
  divider by_top_k;
  int first_expert[max_near_ranks + 1];                     // of each rank, and behind the last
  std::size_t tokens, token_words, sums, sum_words, bytes;  // ids begin at 0

  constexpr explicit cells(const shape& s, const chunk_settings& settings = {})
      : chunk_tokens{settings.chunk_tokens},
        tile_tokens{settings.tile_tokens},
        chunks{larger(1, ceil_div(s.max_tokens, chunk_tokens))},
        tiles{larger(1, ceil_div(s.max_tokens, tile_tokens))},
        id_accesses{larger(1, ceil_div(s.max_tokens * s.top_k, per_rank::ids_of_access))},
        pieces{1},
        piece_payload{s.payload_bytes()},
        payload{s.payload_bytes()},
        weights_at{s.trailer_offset()},
        token_bytes{s.token_row_bytes()},
        piece_room{},
        sum_parts{larger(ceil_div(s.hidden, most_team_columns),
                         smaller(most_sum_parts, ceil_div(settings.least_sums, larger(1, s.max_tokens))))},
        sum_columns{align_up(ceil_div(s.hidden, larger(1, sum_parts)), sum_step)},
        max_rows{s.max_rows()},
        taken{s.taken()},
        expert_slots{larger(4, align_up(s.max_local_experts(), 4))},
        by_top_k{larger(1, s.top_k)},
        first_expert{},
        tokens{2 * size(s.num_ranks) * size(id_accesses) * line_access_bytes},
        token_words{},
        sums{},
        sum_words{},
        bytes{} {
    constexpr int step_bytes = 512;  // whole steps of a format, whole blocks, and whole vec16s of scales
    if (const int least = ceil_div(s.payload_bytes(), settings.piece_bytes); least > 1) {
      piece_payload = align_up(ceil_div(s.payload_bytes(), least), step_bytes);
      pieces = ceil_div(s.payload_bytes(), piece_payload);
    }
    const int of_scale = payload_of_scale_byte(s.facts);
    for (int i = 0; i < pieces; ++i)
      piece_room = larger(piece_room, span_of(i, of_scale).bytes + span_of(i, of_scale).rest_bytes);
    const std::size_t ranks = size(s.num_ranks), most = size(s.max_tokens);
    token_words = tokens + 2 * ranks * most * size(token_bytes);
    sums = align_up(token_words + 2 * ranks * size(chunks) * sizeof(std::uint64_t), std::size_t{128});
    sum_parts = ceil_div(s.hidden, sum_columns);
    sum_words = sums + ranks * most * size(sum_bytes(s, s.sum_format()));
    bytes = align_up(sum_words + ranks * most * size(sum_parts) * sizeof(std::uint64_t), std::size_t{128});
    s.list_first_experts(first_expert);
  }

  constexpr std::size_t ids_at(const shape& s, std::uint64_t epoch, int source, int access) const {
    return (size(of_round(s, epoch, source)) * size(id_accesses) + size(access)) * line_access_bytes;
  }
  /// Its number among the tokens of both rounds.
  constexpr int token_row(const shape& s, std::uint64_t epoch, int source, int token) const {
    return of_round(s, epoch, source) * s.max_tokens + token;
  }
  constexpr std::size_t token_at(const shape& s, std::uint64_t epoch, int source, int token) const {
    return tokens + size(token_row(s, epoch, source, token)) * size(token_bytes);
  }
  /// `of_scale` is payload_of_scale_byte() of the format, which the compiler knows in kernels.
  constexpr piece_span span_of(int piece, int of_scale) const {
    const int begin = piece * piece_payload, bytes = smaller(piece_payload, payload - begin);
    const bool has_scales = weights_at > payload, is_last = piece + 1 == pieces;
    const int rest = payload + (has_scales ? begin / of_scale : 0);
    return {begin, bytes, rest, is_last ? token_bytes - rest : has_scales ? bytes / of_scale : 0};
  }
  constexpr std::size_t token_word_at(const shape& s, std::uint64_t epoch, int source, int chunk) const {
    return token_words +
           (size(of_round(s, epoch, source)) * size(chunks) + size(chunk)) * sizeof(std::uint64_t);
  }
  /// Of a token: its parts. `of` is the communicator's format of sums, which the compiler knows in kernels.
  constexpr int sum_bytes(const shape& s, token_format of) const {
    if (of == token_format::bf16) return sum_bytes_of(of, s.hidden);
    const int before = sum_parts - 1;
    return before * sum_bytes_of(of, sum_columns) + sum_bytes_of(of, s.hidden - before * sum_columns);
  }
  constexpr std::size_t sum_at(const shape& s, int from, int token, token_format of) const {
    return sums + (size(from) * size(s.max_tokens) + size(token)) * size(sum_bytes(s, of));
  }
  constexpr std::size_t sum_word_at(const shape& s, int from, int token, int part) const {
    const std::size_t nth = size(from) * size(s.max_tokens) + size(token);
    return sum_words + (nth * size(sum_parts) + size(part)) * sizeof(std::uint64_t);
  }

 private:
  static constexpr std::size_t size(int n) { return static_cast<std::size_t>(n); }
  static constexpr int of_round(const shape& s, std::uint64_t epoch, int source) {
    return (epoch & 1) != 0 ? s.num_ranks + source : source;
  }
};

/// What windows have behind these where some ranks are beyond the p2p group (peer_window.hpp).
///
///   cell       index                          holds                              written by
///   id_words   [epoch & 1][source][id line]   arrival words: ids that were put   the source, if it is beyond the group
///   sum_sends  [source][token]                a sum as it travels, on its way    this rank, which puts it from there
///
/// Ids and tokens are put from their own places in the rank's own window, where nobody else writes.
///
/// E1: told_puts.hpp. A line of ids, a token that is a chunk and a part of a sum are a put with its own word, a chunk of several
///     tokens has a word behind a fence. Who has seen the word has what it tells of, and of that rank nothing else.
/// S1: a place is written again when all ranks beyond the group have told of a later round's ids, which they do when the kernels
///     that read what was put have ended: ids and tokens in the round after the next one, sums in the next. Of tokens one copy
///     would do: one that was put has come back as a sum when its round ends. Ids of a rank without tokens bring nothing back.
/// Progress: puts, fences and signals wait for no other rank's kernels (exec/far.hpp has for what a fence waits); a line
///     of ids is told of when it has been stored, before anything is awaited.
/// Checked: checks/per_rank_chunks_groups.cpp.
struct far_cells {
  std::size_t id_words, sum_sends, bytes;

  constexpr far_cells(const shape& s, const cells& window)
      : id_words{window.bytes},
        sum_sends{
            align_up(id_words + 2 * size(s.num_ranks) * size(window.id_accesses) * sizeof(std::uint64_t),
                     std::size_t{128})},
        bytes{align_up(
            sum_sends + size(s.num_ranks) * size(s.max_tokens) * size(window.sum_bytes(s, s.sum_format())),
            std::size_t{128})} {}

  constexpr std::size_t id_word_at(const shape& s, const cells& window, std::uint64_t epoch, int source,
                                   int access) const {
    const int of_round = (epoch & 1) != 0 ? s.num_ranks + source : source;
    return id_words + (size(of_round) * size(window.id_accesses) + size(access)) * sizeof(std::uint64_t);
  }
  constexpr std::size_t sum_send_at(const shape& s, const cells& window, int source, int token,
                                    token_format of) const {
    return sum_sends + (size(source) * size(s.max_tokens) + size(token)) * size(window.sum_bytes(s, of));
  }

 private:
  static constexpr std::size_t size(int n) { return static_cast<std::size_t>(n); }
};

/// What windows have behind far_cells with two levels: two_levels.hpp says what is in it.
struct group_cells {
  int groups;
  std::size_t forward_words, bytes;

  constexpr group_cells(const shape& s, const cells& window, int group_size)
      : groups{s.num_ranks / group_size},
        forward_words{far_cells{s, window}.bytes},
        bytes{align_up(forward_words + 2 * size(groups) * size(window.chunks) * sizeof(std::uint64_t),
                       std::size_t{128})} {}

  constexpr std::size_t forward_word_at(const cells& window, std::uint64_t epoch, int group,
                                        int chunk) const {
    const int of_round = (epoch & 1) != 0 ? groups + group : group;
    return forward_words + (size(of_round) * size(window.chunks) + size(chunk)) * sizeof(std::uint64_t);
  }

 private:
  static constexpr std::size_t size(int n) { return static_cast<std::size_t>(n); }
};

/// How many blocks of this rank have taken, where they take what is next of all and not of shares (D2 of plan.hpp).
struct taken_of_all {
  std::uint32_t chunks_to_send, sums_to_send, sums_to_receive;
};

/// Offsets into a rank's own memory: what the kernels note for each other, beside what per_rank's do.
struct local_cells : per_rank::local_cells {
  std::size_t choice_experts;  // u16 [R, T, K]: the local expert of a choice that is here
  std::size_t tile_words;   // u64 [R, tiles]: the last round in which the tile's bits and counts were noted
  std::size_t tile_bits;    // u32 [R, tiles, expert_slots]: bit i: the tile's i-th token lists the expert
  std::size_t tile_counts;  // u8  [R, tiles, expert_slots]: how many do
  std::size_t
      tile_rows;  // i32 [R, tiles, expert_slots]: the row of the first that does; where this tile's block wrote it
  std::size_t taken;  // taken_of_all

  constexpr explicit local_cells(const shape& s, const chunk_settings& settings = {})
      : per_rank::local_cells{s} {
    const cells window{s, settings};
    const auto ranks = static_cast<std::size_t>(s.num_ranks),
               tiles = ranks * static_cast<std::size_t>(window.tiles),
               slots = tiles * static_cast<std::size_t>(window.expert_slots);
    choice_experts =
        take(2 * ranks * static_cast<std::size_t>(s.max_tokens) * static_cast<std::size_t>(s.top_k));
    tile_words = take(sizeof(std::uint64_t) * tiles);
    tile_bits = take(4 * slots);
    tile_counts = take(slots);
    tile_rows = take(4 * slots);
    taken = take(sizeof(taken_of_all));
  }
};

/// And what it has behind these with two levels.
struct group_local_cells : local_cells {
  std::size_t wanted;          // u32 [groups, T]
  std::size_t group_own_sums;  // f32 [groups, T, H]

  constexpr group_local_cells(const shape& s, const chunk_settings& settings, int group_size)
      : local_cells{s, settings} {
    const auto tokens =
        static_cast<std::size_t>(s.num_ranks / group_size) * static_cast<std::size_t>(s.max_tokens);
    wanted = take(4 * tokens);
    group_own_sums = take(4 * tokens * static_cast<std::size_t>(s.hidden));
  }
};

}  // namespace baton::ep::per_rank_chunks
