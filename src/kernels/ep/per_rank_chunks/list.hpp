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
  /// Steps over a tile's tokens whose loads are on their way together.
  static constexpr int together = 4;

  /// A tile's tokens: lane t has the choices of the t-th that are here.
  struct tile_choices {
    typename X::template lanes<std::uint32_t> of_token;
  };
  /// Lane's choice in a step over a tile's tokens: whole tokens, so that those of one token meet. `exists`: there is such a
  /// token; otherwise it is the tile's last one.
  struct choice {
    std::int64_t token;  // its number among all ranks'
    int nth, k;          // token of the tile
    bool exists;
    BATON_FN std::int64_t number(const P& p) const { return token * p.s.top_k + k; }
  };

  BATON_FN int tokens_of(const tile& t) const {
    return smaller(p.window.tile_tokens, p.s.max_tokens - t.nth * p.window.tile_tokens);
  }
  BATON_FN int tokens_of_step() const { return warp_lanes / p.s.top_k; }
  BATON_FN choice choice_of(const tile& t, int first, int lane) const {
    const int in_step = p.window.by_top_k.quotient(lane), nth = first + in_step, last = tokens_of(t) - 1;
    choice c{0, smaller(nth, last), lane - in_step * p.s.top_k, in_step < tokens_of_step() && nth <= last};
    c.token = static_cast<std::int64_t>(t.source) * p.s.max_tokens + t.nth * p.window.tile_tokens + c.nth;
    return c;
  }
  /// Whether lanes' choices of a step are here.
  BATON_FN typename X::template lanes<bool> are_here(X& x, const tile& t, int first,
                                                     const tile_choices& choices) const {
    typename X::template lanes<int> nth;
    typename X::template lanes<bool> here;
    x.each_lane([&](int lane) { nth[lane] = choice_of(t, first, lane).nth; });
    const auto of_token = x.shuffle(choices.of_token, nth);
    x.each_lane([&](int lane) {
      const choice c = choice_of(t, first, lane);
      here[lane] = c.exists && (of_token[lane] >> c.k & 1) != 0;
    });
    return here;
  }

  BATON_FN bool list_tile(X& x, const tile& t) const {
    tile_choices choices;
    x.each_lane([&](int lane) {
      const std::int64_t first =
          static_cast<std::int64_t>(t.source) * p.s.max_tokens + t.nth * p.window.tile_tokens;
      choices.of_token[lane] = lane < tokens_of(t) ? x.read(p.choices + first + lane) : 0;
    });
    const int step = together * tokens_of_step();
    for (int first = 0; first < tokens_of(t); first += step)
      if (!list_rows(x, t, first, choices)) return false;
    if (!await_tile(x, t, choices)) return false;
    for (int first = 0; first < tokens_of(t); first += step) note_weights(x, t, first, choices);
    return true;
  }

  /// Of the tokens of some steps. False: a row that there is not.
  BATON_FN bool list_rows(X& x, const tile& t, int first, const tile_choices& choices) const {
    typename X::template lanes<bool> here[together];
    typename X::template lanes<std::int32_t> row[together];
    typename X::template lanes<int> local[together];
    const auto first_of = [&](int s) { return first + s * tokens_of_step(); };
    // A choice that is not here has an expert of another round: loads do not wait to know whether it is.
    x.each_lane([&](int lane) {
      BATON_UNROLL
      for (int s = 0; s < together; ++s)
        local[s][lane] = x.read(p.choice_experts + choice_of(t, first_of(s), lane).number(p));
    });
    BATON_UNROLL
    for (int s = 0; s < together; ++s) here[s] = are_here(x, t, first_of(s), choices);
    x.each_lane([&](int lane) {
      BATON_UNROLL
      for (int s = 0; s < together; ++s)
        row[s][lane] =
            row_of_expert(x, p, t, choice_of(t, first_of(s), lane).nth, here[s][lane] ? local[s][lane] : 0);
    });
    BATON_UNROLL
    for (int s = 0; s < together; ++s) {
      x.each_lane([&](int lane) {
        if (!here[s][lane]) row[s][lane] = -1;
      });
      if (!list_step(x, t, first_of(s), row[s], here[s])) return false;
    }
    return true;
  }

  /// False: a row that there is not.
  BATON_FN bool list_step(X& x, const tile& t, int first, const typename X::template lanes<std::int32_t>& row,
                          const typename X::template lanes<bool>& has_row) const {
    const auto equal = x.equal_lanes(row);
    if (!are_rows(x, p, epoch, t.source, row, has_row)) return false;
    x.each_lane([&](int lane) {
      if (!has_row[lane]) return;
      const choice c = choice_of(t, first, lane);
      const int token = t.nth * p.window.tile_tokens + c.nth;
      x.write(&p.entries[c.number(p)].row, row[lane]);
      if (lowest_bit(equal[lane]) != lane) return;  // an earlier choice of the token has the row
      x.write(p.token_rows + row[lane], p.window.token_row(p.s, epoch, t.source, token));
      x.write(p.sources + row[lane], source_info{token, c.k, t.source, 0});
    });
    return true;
  }

  /// The router weights of some steps, which came with their tokens.
  BATON_FN void note_weights(X& x, const tile& t, int first, const tile_choices& choices) const {
    typename X::template lanes<bool> here[together];
    const auto first_of = [&](int s) { return first + s * tokens_of_step(); };
    BATON_UNROLL
    for (int s = 0; s < together; ++s) here[s] = are_here(x, t, first_of(s), choices);
    x.each_lane([&](int lane) {
      float weight[together];
      BATON_UNROLL
      for (int s = 0; s < together; ++s) {
        const choice c = choice_of(t, first_of(s), lane);
        const std::byte* token =
            p.window_of(p.s.rank) +
            p.window.token_at(p.s, epoch, t.source, t.nth * p.window.tile_tokens + c.nth);
        weight[s] =
            here[s][lane] ? x.read(reinterpret_cast<const float*>(token + p.window.weights_at) + c.k) : 0.0f;
      }
      BATON_UNROLL
      for (int s = 0; s < together; ++s)
        if (here[s][lane]) x.write(&p.entries[choice_of(t, first_of(s), lane).number(p)].weight, weight[s]);
    });
  }

  /// Until the tile's chunks are here (E1). False: gave up, or refused one.
  BATON_FN bool await_tile(X& x, const tile& t, const tile_choices& choices) const {
    const int chunk = p.window.chunk_tokens, first = t.nth * p.window.tile_tokens;
    typename X::template lanes<bool> comes;
    x.each_lane([&](int lane) { comes[lane] = choices.of_token[lane] != 0; });
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
