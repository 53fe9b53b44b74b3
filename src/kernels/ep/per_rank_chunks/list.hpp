#pragma once
// Received tokens that stay where they arrive (ep_rows::by_token): which of them each row of an expert has, and what combine
// has to know. A warp takes a tile: rows are noted while its tokens are on their way, router weights when they are here.
#include "kernels/ep/per_rank_chunks/arrived_chunks.hpp"
#include "kernels/ep/per_rank_chunks/tile_index.hpp"

namespace baton::ep::per_rank_chunks {

template <class X, class P = dispatch_params>
struct token_lister {
  const P& p;
  std::uint64_t epoch;

  /// One warp: tiles of the block, as long as there are some. False: gave up.
  BATON_FN bool list_all(X& x, std::uint32_t* next) const {
    for (;;) {
      const int dealt = x.block() + take_next(x, next) * x.num_blocks();
      if (dealt >= num_tiles(p)) return true;
      if (!list_tile(x, dealt_tile(p.s, dealt))) return false;
    }
  }

 private:
  /// Lane's choice in a step over a tile's tokens: whole tokens, so that those of one token meet.
  struct choice {
    std::int64_t token;  // its number among all ranks'
    int nth, k;          // token of the tile
    bool here;
  };

  BATON_FN int tokens_of(const tile& t) const {
    return smaller(p.window.tile_tokens, p.s.max_tokens - t.nth * p.window.tile_tokens);
  }
  BATON_FN int tokens_of_step() const { return warp_lanes / p.s.top_k; }
  BATON_FN choice choice_of(X& x, const tile& t, int first, int lane) const {
    const int in_step = p.window.by_top_k.quotient(lane), nth = first + in_step;
    choice c{0, nth, lane - in_step * p.s.top_k, false};
    if (in_step >= tokens_of_step() || nth >= tokens_of(t)) return c;
    c.token = static_cast<std::int64_t>(t.source) * p.s.max_tokens + t.nth * p.window.tile_tokens + nth;
    c.here = (x.read(p.choices + c.token) >> c.k & 1) != 0;
    return c;
  }

  BATON_FN bool list_tile(X& x, const tile& t) const {
    for (int first = 0; first < tokens_of(t); first += tokens_of_step())
      if (!list_rows(x, t, first)) return false;
    if (!await_tile(x, t)) return false;
    for (int first = 0; first < tokens_of(t); first += tokens_of_step())
      x.each_lane([&](int lane) {
        const choice c = choice_of(x, t, first, lane);
        if (!c.here) return;
        const std::byte* token =
            p.windows.at[p.s.rank] +
            p.window.token_at(p.s, epoch, t.source, t.nth * p.window.tile_tokens + c.nth);
        const auto* weights = reinterpret_cast<const float*>(token + p.window.weights_at);
        x.write(&p.entries[c.token * p.s.top_k + c.k].weight, x.read(weights + c.k));
      });
    return true;
  }

  /// False: a row that there is not.
  BATON_FN bool list_rows(X& x, const tile& t, int first) const {
    typename X::template lanes<std::int32_t> row;
    typename X::template lanes<bool> has_row;
    x.each_lane([&](int lane) {
      const choice c = choice_of(x, t, first, lane);
      has_row[lane] = c.here;
      row[lane] = c.here ? row_of_choice(x, p, t, c.nth, c.token * p.s.top_k + c.k) : -1;
    });
    const auto equal = x.equal_lanes(row);
    if (!are_rows(x, p, epoch, t.source, row, has_row)) return false;
    x.each_lane([&](int lane) {
      const choice c = choice_of(x, t, first, lane);
      if (!c.here) return;
      const int token = t.nth * p.window.tile_tokens + c.nth;
      x.write(&p.entries[c.token * p.s.top_k + c.k].row, row[lane]);
      if (lowest_bit(equal[lane]) != lane) return;  // an earlier choice of the token has the row
      x.write(p.token_rows + row[lane], p.window.token_row(p.s, epoch, t.source, token));
      x.write(p.sources + row[lane], source_info{token, c.k, t.source, 0});
    });
    return true;
  }

  /// Until the tile's chunks are here (E1). False: gave up, or refused one.
  BATON_FN bool await_tile(X& x, const tile& t) const {
    const int chunk = p.window.chunk_tokens, first = t.nth * p.window.tile_tokens;
    typename X::template lanes<bool> comes;
    x.each_lane([&](int lane) {
      const std::int64_t token = static_cast<std::int64_t>(t.source) * p.s.max_tokens + first + lane;
      comes[lane] = lane < tokens_of(t) && x.read(p.choices + token) != 0;
    });
    const std::uint32_t coming = x.ballot(comes), one = ~0u >> (warp_lanes - chunk);
    typename X::template lanes<std::uint64_t*> words;
    typename X::template lanes<int> tokens;
    x.each_lane([&](int lane) {
      tokens[lane] = lane * chunk < warp_lanes ? count_bits(coming >> (lane * chunk) & one) : 0;
      words[lane] = tokens[lane] > 0 ? word_of(p, epoch, t.source, first / chunk + lane) : nullptr;
    });
    return await_chunks(x, words, tokens, chunk_site(p, epoch, t.source));
  }
};

}  // namespace baton::ep::per_rank_chunks
