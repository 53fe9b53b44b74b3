#pragma once
// Chunks of received tokens, from the window to rows: a warp asks the copy engine for pieces, and for a copy of each to every
// row of its token.
#include "kernels/ep/per_rank_chunks/tile_index.hpp"
#include "kernels/ep/per_rank_chunks/warp_ring.hpp"
#include "protocol/arrival.hpp"

namespace baton::ep::per_rank_chunks {

struct receive_sites {
  static consteval site chunk() { return "dispatch.chunk"; }
  static consteval site damaged() { return "dispatch.damaged_chunk"; }
  static consteval site row() { return "dispatch.damaged_row"; }
  static consteval site piece() { return "dispatch.piece"; }
};

/// A piece of a token that is sent to this rank; no token: none is left.
struct received_piece {
  tile of{};
  int token = -1, piece = 0;
  std::uint32_t here = 0;  // the token's choices on this rank
};

/// The warp: until a chunk's word is here and says `tokens` (E1). False: gave up, or refused it.
template <class X>
BATON_FN bool await_chunk(X& x, const std::byte* word, int tokens, wait_site at, site damaged) {
  typename X::template lanes<std::uint64_t*> words;
  typename X::template lanes<std::uint64_t> seen;
  x.each_lane([&](int lane) {
    words[lane] = lane == 0 ? reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(word)) : nullptr;
  });
  if (!await<epoch_arrival>(x, words, warp_lanes, at, seen)) return false;
  const int told = epoch_arrival::count(x.broadcast(seen, 0));
  if (told != tokens) {
    at.where = damaged;
    at.expected = static_cast<std::uint64_t>(tokens);
    x.elect([&] { x.refuse(at, static_cast<std::uint64_t>(told)); });
    return false;
  }
  x.elect([&] { x.fence_proxy_async_global(); });
  return true;
}

/// One warp's. A piece is asked for, and its rows are found, while the one before is on its way to its own.
template <class X>
struct chunk_receiver {
  const dispatch_params& p;
  std::uint64_t epoch;
  warp_ring<X>& ring;
  std::uint32_t* next_chunk;

  BATON_FN chunk_receiver(const dispatch_params& params, std::uint64_t round, warp_ring<X>& pieces,
                          std::uint32_t* next)
      : p{params}, epoch{round}, ring{pieces}, next_chunk{next} {}

  /// Chunks of the block's tiles, as long as there are some. False: gave up.
  BATON_FN bool receive_all(X& x) {
    upcoming_ = look_up(x);
    received_piece now;
    token_rows rows{};
    if (!advance(x, now)) return false;
    if (now.token < 0) return true;
    ask(x, now);
    if (!find(x, now, rows)) return false;
    while (now.token >= 0) {
      received_piece next = now;
      if (!advance(x, next)) return false;
      const bool goes_on = next.token >= 0, early = goes_on && ring.has_room();
      if (early) ask(x, next);
      const std::byte* piece = ring.await(x, {.where = receive_sites::piece()});
      if (piece == nullptr) return false;
      write(x, now, rows, piece);
      if (goes_on && next.piece == 0 && !find(x, next, rows)) return false;
      x.bulk_wait_read();
      ring.release(x);
      if (goes_on && !early) ask(x, next);
      now = next;
    }
    return true;
  }

 private:
  struct chunk {
    tile of{};
    int first_token = -1;  // none is left
  };
  /// What the warp knows of a token: lane k has choice k's row, or -1.
  struct token_rows {
    std::uint32_t first;  // choices that no earlier choice of the token shares a row with
    typename X::template lanes<std::int32_t> of_choice;
  };
  /// A chunk, and each of its tokens' choices here, not waited for.
  struct known_chunk {
    chunk at{};
    typename X::template lanes<std::uint32_t> choices{};
  };

  BATON_FN std::int64_t number(const received_piece& at) const {
    return static_cast<std::int64_t>(at.of.source) * p.s.max_tokens + at.token;
  }

  /// The block's next chunk.
  BATON_FN known_chunk look_up(X& x) const {
    const int chunks_of_tile = p.window.tile_tokens / p.window.chunk_tokens;
    for (;;) {
      const int taken = take_next(x, next_chunk), nth_tile = taken / chunks_of_tile;
      const int dealt = x.block() + nth_tile * x.num_blocks();
      known_chunk found;
      if (dealt >= num_tiles(p)) return found;
      const tile of = dealt_tile(p.s, dealt);
      const int first = of.nth * p.window.tile_tokens + taken % chunks_of_tile * p.window.chunk_tokens;
      if (first >= p.s.max_tokens) continue;
      found.at = {of, first};
      x.each_lane([&](int lane) {
        const bool is_token = lane < p.window.chunk_tokens && first + lane < p.s.max_tokens;
        const std::int64_t token = static_cast<std::int64_t>(of.source) * p.s.max_tokens + first + lane;
        found.choices[lane] = is_token ? x.read(p.choices + token) : 0;
      });
      return found;
    }
  }

  /// To the piece behind `at`, of a chunk that is here. False: gave up.
  BATON_FN bool advance(X& x, received_piece& at) {
    if (at.token >= 0 && ++at.piece < p.window.pieces) return true;
    at = {};
    while (left_ == 0) {
      if (upcoming_.at.first_token < 0) return true;
      chunk_ = upcoming_;
      upcoming_ = look_up(x);
      typename X::template lanes<bool> comes;
      x.each_lane([&](int lane) { comes[lane] = chunk_.choices[lane] != 0; });
      left_ = x.ballot(comes);
      if (left_ != 0 && !await_current(x)) return false;
    }
    const int nth = lowest_bit(left_);
    left_ &= left_ - 1;
    at = {chunk_.at.of, chunk_.at.first_token + nth, 0, x.broadcast(chunk_.choices, nth)};
    return true;
  }

  BATON_FN bool await_current(X& x) const {
    const int source = chunk_.at.of.source;
    const std::byte* word =
        p.windows.at[p.s.rank] +
        p.window.token_word_at(p.s, epoch, source, chunk_.at.first_token / p.window.chunk_tokens);
    return await_chunk(
        x, word, count_bits(left_),
        {.where = receive_sites::chunk(), .peer = source, .epoch = static_cast<std::uint32_t>(epoch)},
        receive_sites::damaged());
  }

  BATON_FN void ask(X& x, const received_piece& at) {
    const int bytes = at.piece == 0 ? p.window.piece_stride : p.window.weights_at;
    ring.load(x, p.windows.at[p.s.rank] + p.window.piece_at(p.s, epoch, at.of.source, at.token, at.piece),
              bytes);
  }

  /// False: a row that there is not.
  BATON_FN bool find(X& x, const received_piece& at, token_rows& rows) {
    const std::int64_t slots = static_cast<std::int64_t>(at.of.place(p.window)) * p.window.expert_slots;
    const std::uint32_t below = (1u << (at.token - at.of.nth * p.window.tile_tokens)) - 1;
    typename X::template lanes<bool> sound, first;
    x.each_lane([&](int k) {
      rows.of_choice[k] = -1;
      sound[k] = true;
      if ((at.here >> k & 1) == 0) return;
      const int local = x.read(p.choice_experts + number(at) * p.s.top_k + k);
      const std::uint32_t bits = x.read(p.tile_bits + slots + local);
      rows.of_choice[k] = x.read(p.tile_rows + slots + local) + count_bits(bits & below);
      sound[k] =
          static_cast<std::uint32_t>(rows.of_choice[k]) < static_cast<std::uint32_t>(p.window.max_rows);
    });
    const auto equal = x.equal_lanes(rows.of_choice);
    x.each_lane([&](int k) { first[k] = (at.here >> k & 1) != 0 && lowest_bit(equal[k]) == k; });
    rows.first = x.ballot(first);
    const std::uint32_t all = x.ballot(sound);
    if (all == 0xffffffffu) return true;
    const int row = x.broadcast(rows.of_choice, lowest_bit(~all));
    x.elect([&] {
      x.refuse({.where = receive_sites::row(),
                .peer = at.of.source,
                .epoch = static_cast<std::uint32_t>(epoch),
                .expected = static_cast<std::uint64_t>(p.window.max_rows)},
               static_cast<std::uint32_t>(row));
    });
    return false;
  }

  /// A piece to all rows of its token; with the first one what combine has to know.
  BATON_FN void write(X& x, const received_piece& at, const token_rows& rows, const std::byte* piece) {
    const int row_bytes = p.s.payload_bytes(), begin = at.piece * p.window.piece_payload,
              bytes = smaller(p.window.piece_payload, row_bytes - begin);
    x.each_lane([&](int k) {
      if ((rows.first >> k & 1) == 0) return;
      x.bulk_store(p.rows + static_cast<std::int64_t>(rows.of_choice[k]) * row_bytes + begin, piece, bytes);
      x.bulk_commit();
    });
    if (p.s.is_fp8()) write_scales(x, rows, piece, begin / 128, bytes / 128);
    if (at.piece != 0) return;
    x.each_lane([&](int k) {
      if ((at.here >> k & 1) == 0) return;
      const float weight = x.read(reinterpret_cast<const float*>(piece + p.window.weights_at) + k);
      x.write(p.entries + number(at) * p.s.top_k + k, entry{rows.of_choice[k], weight});
      if ((rows.first >> k & 1) != 0)
        x.write(p.sources + rows.of_choice[k], source_info{at.token, k, at.of.source, 0});
    });
  }

  /// Four rows at a time: a lane has one of them, and every eighth block.
  BATON_FN void write_scales(X& x, const token_rows& rows, const std::byte* piece, int first_block,
                             int blocks) {
    constexpr int together = 4, stride = warp_lanes / together;
    const auto* scales = reinterpret_cast<const float*>(piece + p.window.scales_at);
    for (std::uint32_t left = rows.first; left != 0;) {
      std::int32_t row[together];
      BATON_UNROLL
      for (int i = 0; i < together; ++i, left &= left - 1) {
        const std::int32_t of_choice = x.broadcast(rows.of_choice, left != 0 ? lowest_bit(left) : 0);
        row[i] = left != 0 ? of_choice : -1;
      }
      x.each_lane([&](int lane) {
        const int nth = lane % together;
        const std::int32_t mine = nth < 2 ? (nth == 0 ? row[0] : row[1]) : (nth == 2 ? row[2] : row[3]);
        if (mine < 0) return;
        const int begin = lane / together;
        float* to = p.scales + static_cast<std::int64_t>(first_block + begin) * p.window.max_rows + mine;
        for (int b = begin; b < blocks; b += stride, to += std::int64_t{stride} * p.window.max_rows)
          x.write(to, x.read(scales + b));
      });
    }
  }

  known_chunk chunk_{}, upcoming_{};
  std::uint32_t left_ = 0;  // bit i: the chunk's i-th token, which is here and has not been asked for
};

}  // namespace baton::ep::per_rank_chunks
