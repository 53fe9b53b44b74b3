#pragma once
// Chunks that a rank beyond the group has put here, to the ranks of this group that want them (two_levels.hpp): a warp has the
// copy engine load a piece, and store it to each of them, where the source would have stored it. Others are told of a chunk when
// the next one's first pieces are on their way, so that a warp waits for its stores while it waits for loads, or before it
// waits for a chunk that is not here yet.
//
// F1: a chunk's pieces happen before its word is seen: the warp awaits the forward word, fences for the engine, waits until its
//     copies are done, which is a fence of the proxy, then publishes (E1 of protocol/arrival.hpp). Whoever has seen the word
//     fences before its engine reads. This rank's own word needs no copies.
#include "base/bits.hpp"
#include "kernels/ep/per_rank_chunks/arrived_chunks.hpp"
#include "kernels/ep/per_rank_chunks/receive.hpp"
#include "kernels/ep/per_rank_chunks/send.hpp"
#include "kernels/ep/per_rank_chunks/wanted_tokens.hpp"

namespace baton::ep::per_rank_chunks {

struct forward_sites {
  static consteval site chunk() { return "dispatch.forward"; }
};

template <token_format Format, class X, class P>
struct chunk_forwarder {
  static constexpr int of_scale = payload_of_scale_byte(facts_of(Format));

  const P& p;
  std::uint64_t epoch;
  warp_ring<X>& ring;

  /// One warp: chunks of the block's tiles, as long as there are some. False: gave up.
  BATON_FN bool forward_all(X& x, std::uint32_t* next) {
    const int chunks_of_tile = p.window.tile_tokens / p.window.chunk_tokens;
    chunk untold{};
    for (dealt_chunk c; take_chunk(x, p, chunks_of_tile, next, c);)
      if (c.first_token < p.s.max_tokens && forwards_for(p, c.of.source) &&
          !forward_chunk(x, c.of.source, c.first_token, untold))
        return false;
    tell_others(x, untold);
    return true;
  }

 private:
  /// A chunk: lane r has how many of its tokens rank r of the group wants.
  struct chunk {
    int source = -1, first_token = 0;  // no source: no chunk
    typename X::template lanes<int> of_rank{};
  };
  /// Lane i: who wants the i-th of a chunk's tokens.
  using wanted_of_tokens = typename X::template lanes<std::uint32_t>;

  /// `untold`: the one before, of which others have not been told; then it is this one, if it is for others.
  BATON_FN bool forward_chunk(X& x, int source, int first_token, chunk& untold) {
    chunk c{source, first_token};
    wanted_of_tokens wanted;
    typename X::template lanes<bool> comes, leaves;
    x.each_lane([&](int lane) {
      const int token = first_token + lane;
      const bool is_token = lane < p.window.chunk_tokens && token < p.s.max_tokens;
      wanted[lane] = is_token ? who_wants(x, p, source, token) : 0;
      comes[lane] = wanted[lane] != 0;
      leaves[lane] = (wanted[lane] & ~own()) != 0;
    });
    const std::uint32_t coming = x.ballot(comes), leaving = x.ballot(leaves);
    if (coming == 0) return true;
    for (std::uint32_t left = coming; left != 0; left &= left - 1) {
      const std::uint32_t ranks = x.broadcast(wanted, lowest_bit(left));
      x.each_lane([&](int r) { c.of_rank[r] += static_cast<int>(ranks >> r & 1); });
    }
    if (untold.source >= 0 && !is_here(x, c, count_bits(coming))) tell_others(x, untold);
    if (!await_chunk(x, c, count_bits(coming))) return false;
    tell(x, c, own());
    if (leaving == 0) return true;
    if (!copy(x, c, wanted, leaving, untold)) return false;
    untold = c;
    return true;
  }

  BATON_FN std::uint32_t own() const { return 1u << p.s.rank; }

  BATON_FN std::uint64_t* forward_word_of(const chunk& c) const {
    auto* word =
        p.window_of(p.s.rank) + p.groups.cells.forward_word_at(p.window, epoch, p.group_of(c.source),
                                                               c.first_token / p.window.chunk_tokens);
    return reinterpret_cast<std::uint64_t*>(word);
  }

  /// Whether the wait for it will be short: it is what says that it is.
  BATON_FN bool is_here(X& x, const chunk& c, int tokens) const {
    const std::uint64_t here =
        epoch_arrival::word(static_cast<std::uint32_t>(epoch), static_cast<std::uint32_t>(tokens));
    return x.from_one([&] { return x.template load<order::relaxed, scope::system>(forward_word_of(c)); }) ==
           here;
  }

  /// Until the source has put the chunk, and said of as many tokens as its ids say that it has (E1).
  BATON_FN bool await_chunk(X& x, const chunk& c, int tokens) const {
    typename X::template lanes<std::uint64_t*> words;
    typename X::template lanes<int> expected;
    x.each_lane([&](int lane) {
      words[lane] = lane == 0 ? forward_word_of(c) : nullptr;
      expected[lane] = tokens;
    });
    return await_chunks(
        x, words, expected,
        {.where = forward_sites::chunk(), .peer = c.source, .epoch = static_cast<std::uint32_t>(epoch)});
  }

  /// To each of `ranks` that wants some of the chunk: that it is there. A lane tells of what it has copied, or the warp awaited.
  BATON_FN void tell(X& x, const chunk& c, std::uint32_t ranks) const {
    x.each_lane([&](int r) {
      if (c.of_rank[r] == 0 || (ranks >> r & 1) == 0) return;
      auto* word = p.window_of(r) +
                   p.window.token_word_at(p.s, epoch, c.source, c.first_token / p.window.chunk_tokens);
      publish<epoch_arrival>(x, reinterpret_cast<std::uint64_t*>(word), static_cast<std::uint32_t>(epoch),
                             c.of_rank[r]);
    });
    x.sync_warp();  // or the compiler takes the warp for parted from here on
  }

  /// Of the chunk before, if there is one, whose copies are all that the warp has asked for.
  BATON_FN void tell_others(X& x, chunk& untold) const {
    if (untold.source < 0) return;
    x.bulk_wait();
    tell(x, untold, ~own());
    untold.source = -1;
  }

  /// These of its tokens, to the other ranks. False: gave up.
  BATON_FN bool copy(X& x, const chunk& c, const wanted_of_tokens& wanted, std::uint32_t tokens,
                     chunk& untold) {
    piece_walk ahead{tokens};
    for (piece_walk now{tokens}; !now.ended(); now.step(p.window.pieces)) {
      for (; !ahead.ended() && ring.has_room(); ahead.step(p.window.pieces))
        ring.load(x, p.window_of(p.s.rank) + at(c, ahead), p.window.span_of(ahead.piece, of_scale));
      tell_others(x, untold);
      const std::byte* piece = ring.await(x, {.where = receive_sites::piece()});
      if (piece == nullptr) return false;
      store_piece(x, piece, p.window.span_of(now.piece, of_scale), at(c, now),
                  x.broadcast(wanted, now.token()) & ~own());
      x.bulk_wait_read();
      ring.release(x);
    }
    return true;
  }

  BATON_FN std::size_t at(const chunk& c, const piece_walk& walk) const {
    return p.window.token_at(p.s, epoch, c.source, c.first_token + walk.token());
  }

  BATON_FN void store_piece(X& x, const std::byte* piece, const piece_span& span, std::size_t token,
                            std::uint32_t ranks) const {
    x.each_lane([&](int r) {
      if ((ranks >> r & 1) == 0) return;
      store_span(x, p.window_of(r) + token, piece, span);
      x.bulk_commit();
    });
  }
};

}  // namespace baton::ep::per_rank_chunks
