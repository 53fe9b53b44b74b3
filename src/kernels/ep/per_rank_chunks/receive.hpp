#pragma once
// Chunks of received tokens, from the window to rows: a warp asks the copy engine for pieces, and for a copy of each to every
// row of its token.
#include "kernels/ep/per_rank_chunks/arrived_chunks.hpp"
#include "kernels/ep/per_rank_chunks/tile_index.hpp"
#include "kernels/ep/per_rank_chunks/warp_ring.hpp"
#include "kernels/ep/row_scales.hpp"

namespace baton::ep::per_rank_chunks {

/// The pieces of a set of tokens, in order.
struct piece_walk {
  std::uint32_t left;  // bit i: the chunk's i-th token
  int piece = 0;
  BATON_FN bool ended() const { return left == 0; }
  BATON_FN int token() const { return lowest_bit(left); }
  BATON_FN void step(int pieces) {
    if (++piece < pieces) return;
    piece = 0;
    left &= left - 1;
  }
};

/// A chunk of a tile that is dealt to the block; it may lie behind the source's last token.
struct dealt_chunk {
  tile of;
  int first_token;
};
/// One warp: the block's next. False: there are no more.
template <class X>
BATON_FN bool take_chunk(X& x, const any_dispatch_params& p, int chunks_of_tile, std::uint32_t* next,
                         dealt_chunk& c) {
  const int taken = take_next(x, next), nth_tile = taken / chunks_of_tile;
  const int dealt = x.block() + nth_tile * x.num_blocks();
  if (dealt >= num_tiles(p)) return false;
  c.of = dealt_tile(p.s, dealt);
  c.first_token = c.of.nth * p.window.tile_tokens + taken % chunks_of_tile * p.window.chunk_tokens;
  return true;
}

template <token_format Format, class X, class P = dispatch_params>
struct chunk_receiver {
  static constexpr int of_scale = payload_of_scale_byte(facts_of(Format));

  const P& p;
  std::uint64_t epoch;
  warp_ring<X>& ring;

  /// One warp: chunks of the block's tiles, as long as there are some. False: gave up.
  BATON_FN bool receive_all(X& x, std::uint32_t* next) {
    const int chunks_of_tile = p.window.tile_tokens / p.window.chunk_tokens;
    for (dealt_chunk c; take_chunk(x, p, chunks_of_tile, next, c);)
      if (c.first_token < p.s.max_tokens && !receive_chunk(x, c)) return false;
    return true;
  }

 private:
  using chunk = dealt_chunk;
  /// What the warp knows of a token: lane k has choice k's row, or -1.
  struct token_rows {
    int token;
    std::uint32_t here, first;  // choices that have a row here; those that no earlier choice shares
    typename X::template lanes<std::int32_t> of_choice;
  };

  BATON_FN std::int64_t number(const chunk& c, int token) const {
    return static_cast<std::int64_t>(c.of.source) * p.s.max_tokens + token;
  }

  BATON_FN bool receive_chunk(X& x, const chunk& c) {
    typename X::template lanes<std::uint32_t> choices;
    typename X::template lanes<bool> comes;
    x.each_lane([&](int lane) {
      const bool is_token = lane < p.window.chunk_tokens && c.first_token + lane < p.s.max_tokens;
      choices[lane] = is_token ? x.read(p.choices + number(c, c.first_token + lane)) : 0;
      comes[lane] = choices[lane] != 0;
    });
    const std::uint32_t coming = x.ballot(comes);
    if (coming == 0) return true;
    typename X::template lanes<std::uint64_t*> words;
    typename X::template lanes<int> tokens;
    x.each_lane([&](int lane) {
      words[lane] =
          lane == 0 ? word_of(p, epoch, c.of.source, c.first_token / p.window.chunk_tokens) : nullptr;
      tokens[lane] = count_bits(coming);
    });
    if (!await_chunks(x, words, tokens, chunk_site(p, epoch, c.of.source))) return false;
    piece_walk ahead{coming};
    token_rows rows{};
    for (piece_walk now{coming}; !now.ended(); now.step(p.window.pieces)) {
      for (; !ahead.ended() && ring.has_room(); ahead.step(p.window.pieces)) ask(x, c, ahead);
      if (now.piece == 0 && !find(x, c, now.token(), x.broadcast(choices, now.token()), rows)) return false;
      const std::byte* piece = ring.await(x, {.where = receive_sites::piece()});
      if (piece == nullptr) return false;
      write(x, c, rows, now.piece, piece);
      x.bulk_wait_read();
      ring.release(x);
    }
    return true;
  }

  BATON_FN void ask(X& x, const chunk& c, const piece_walk& at) {
    const std::byte* token =
        p.window_of(p.s.rank) + p.window.token_at(p.s, epoch, c.of.source, c.first_token + at.token());
    ring.load(x, token, p.window.span_of(at.piece, of_scale));
  }

  /// False: a row that there is not.
  BATON_FN bool find(X& x, const chunk& c, int nth, std::uint32_t here, token_rows& rows) {
    rows.token = c.first_token + nth;
    rows.here = here;
    const int in_tile = rows.token - c.of.nth * p.window.tile_tokens;
    typename X::template lanes<bool> has_row, first;
    x.each_lane([&](int k) {
      has_row[k] = (here >> k & 1) != 0;
      rows.of_choice[k] =
          has_row[k] ? row_of_choice(x, p, c.of, in_tile, number(c, rows.token) * p.s.top_k + k) : -1;
    });
    const auto equal = x.equal_lanes(rows.of_choice);
    x.each_lane([&](int k) { first[k] = has_row[k] && lowest_bit(equal[k]) == k; });
    rows.first = x.ballot(first);
    return are_rows(x, p, epoch, c.of.source, rows.of_choice, has_row);
  }

  /// A piece to all rows of its token; with the last one what combine has to know.
  BATON_FN void write(X& x, const chunk& c, const token_rows& rows, int nth, const std::byte* piece) {
    const piece_span span = p.window.span_of(nth, of_scale);
    x.each_lane([&](int k) {
      if ((rows.first >> k & 1) == 0) return;
      std::byte* row = p.rows + static_cast<std::int64_t>(rows.of_choice[k]) * p.window.payload;
      x.bulk_store(row + span.begin, piece, span.bytes);
      x.bulk_commit();
    });
    if constexpr (facts_of(Format).scale_bytes == 1) {
      const int before = span.begin / of_scale,
                bytes = smaller(span.bytes / of_scale, p.s.scale_bytes() - before);
      for (std::uint32_t left = rows.first; left != 0; left &= left - 1)
        row_scales::of_row(facts_of(Format), {p.s.scales_layout(), p.window.max_rows, p.s.scale_blocks()},
                           reinterpret_cast<std::byte*>(p.scales),
                           x.broadcast(rows.of_choice, lowest_bit(left)))
            .copy_all(x, piece + span.bytes, before, bytes);
    } else if (p.s.is_fp8()) {
      const auto* scales = reinterpret_cast<const float*>(piece + span.bytes);
      for (std::uint32_t left = rows.first; left != 0; left &= left - 1) {
        float* to = p.scales + x.broadcast(rows.of_choice, lowest_bit(left));
        x.each(span.bytes / 128, [&](int b) {
          x.write(to + static_cast<std::int64_t>(span.begin / 128 + b) * p.window.max_rows,
                  x.read(scales + b));
        });
      }
    }
    if (nth + 1 != p.window.pieces) return;
    const auto* weights =
        reinterpret_cast<const float*>(piece + span.bytes + (p.window.weights_at - span.rest));
    x.each_lane([&](int k) {
      if ((rows.here >> k & 1) == 0) return;
      const float weight = x.read(weights + k);
      x.write(p.entries + number(c, rows.token) * p.s.top_k + k, entry{rows.of_choice[k], weight});
      if ((rows.first >> k & 1) != 0)
        x.write(p.sources + rows.of_choice[k], source_info{rows.token, k, c.of.source, 0});
    });
  }
};

}  // namespace baton::ep::per_rank_chunks
