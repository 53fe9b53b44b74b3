#pragma once
// Chunks of this rank's tokens, to the ranks of their experts.
//
// T3: a chunk's pieces happen before its arrival word is seen: the warp waits until its copies are done, then publishes (E1
//     of protocol/arrival.hpp). A word says how many of the chunk's tokens were sent, which the receiver knows from the ids.
#include "base/bits.hpp"
#include "kernels/ep/per_rank_chunks/plan.hpp"
#include "kernels/ep/token_format.hpp"
#include "protocol/arrival.hpp"

namespace baton::ep::per_rank_chunks {

/// A piece of a token of this rank.
struct token_piece {
  int token, piece;
};

/// Where a warp stages what it sends.
struct staging {
  std::byte* pieces;  // [stages, piece_stride]
  int stages, next;
};

template <class Format>
struct chunk_sender {
  const dispatch_params& p;
  std::uint64_t epoch;

  /// One warp: chunks of this rank, as long as the block has some.
  template <class X>
  BATON_FN void send_all(X& x, std::uint32_t* next, const staging& room) const {
    staging stage = room;
    for (;;) {
      const int chunk = take_next(x, next) * x.num_blocks() + x.block();
      if (chunk * p.window.chunk_tokens >= p.num_tokens) return;
      send_chunk(x, stage, chunk);
    }
  }

 private:
  template <class X>
  BATON_FN void send_chunk(X& x, staging& stage, int chunk) const {
    typename X::template lanes<int> wanted;  // lane r: tokens of the chunk that rank r wants
    x.each_lane([&](int lane) { wanted[lane] = 0; });
    const int first = chunk * p.window.chunk_tokens,
              end = smaller(p.num_tokens, first + p.window.chunk_tokens);
    for (int token = first; token < end; ++token) {
      const std::uint32_t ranks = send_token(x, stage, token);
      x.each_lane([&](int r) { wanted[r] += static_cast<int>(ranks >> r & 1); });
    }
    x.bulk_wait();
    x.each_lane([&](int r) {
      if (wanted[r] == 0) return;
      x.fence_proxy_async_global();
      auto* word = p.windows.at[r] + p.window.token_word_at(p.s, epoch, p.s.rank, chunk);
      publish<epoch_arrival>(x, reinterpret_cast<std::uint64_t*>(word), static_cast<std::uint32_t>(epoch),
                             wanted[r]);
    });
  }

  /// The ranks that want it: bit r.
  template <class X>
  BATON_FN std::uint32_t send_token(X& x, staging& stage, int token) const {
    typename X::template lanes<std::int32_t> id;
    x.each_lane([&](int k) { id[k] = k < p.s.top_k ? x.read(p.topk_idx + token * p.s.top_k + k) : -1; });
    std::uint32_t ranks = 0;
    for (int piece = 0; piece < p.window.pieces; ++piece) {
      std::byte* to = stage.pieces + stage.next * p.window.piece_stride;
      if (stage.stages == 1)
        x.bulk_wait_read();
      else
        x.template bulk_wait_read<1>();
      stage_piece(x, to, {token, piece});
      if (piece == 0) ranks = ranks_of(x, id);
      if (ranks == 0) break;
      x.each_lane([&](int) { x.fence_proxy_async(); });
      x.sync_warp();
      x.elect([&] { send_piece(x, to, {token, piece}, ranks); });
      if (++stage.next == stage.stages) stage.next = 0;
    }
    x.elect([&] { x.write(p.rank_sets + token, ranks); });
    return ranks;
  }

  template <class X>
  BATON_FN std::uint32_t ranks_of(X& x, const typename X::template lanes<std::int32_t>& id) const {
    std::uint32_t set = 0;
    for (int r = 0; r < p.s.num_ranks; ++r) {
      typename X::template lanes<bool> here;
      x.each_lane([&](int k) {
        here[k] = id[k] >= p.window.first_expert[r] && id[k] < p.window.first_expert[r + 1];
      });
      if (x.ballot(here) != 0) set |= 1u << r;
    }
    return set;
  }

  /// What a token's encoder yields, into shared memory.
  template <class X>
  struct to_staging {
    X& x;
    std::byte *payload_at, *scales_at;
    int first_byte, first_block;
    BATON_FN void payload(int offset, const vec16& bits) const {
      x.write(reinterpret_cast<vec16*>(payload_at + (offset - first_byte)), bits);
    }
    BATON_FN void scale(int block, float value) const {
      x.write(reinterpret_cast<float*>(scales_at) + (block - first_block), value);
    }
  };

  /// Casts a piece, some steps at a time whose loads are in flight together; behind it weights.
  template <class X>
  BATON_FN void stage_piece(X& x, std::byte* to, const token_piece& at) const {
    constexpr int together = 4;
    const int values = p.window.piece_payload * Format::step_values / step_bytes, begin = at.piece * values,
              end = smaller(p.s.hidden, begin + values);
    const bfloat16* from = p.tokens + static_cast<std::int64_t>(at.token) * p.s.hidden;
    const to_staging<X> sink{x, to, to + p.window.scales_at, at.piece * p.window.piece_payload, begin / 128};
    for (int first = begin; first < end; first += together * Format::step_values) {
      typename X::template lanes<typename Format::lane_input> in[together];
      BATON_UNROLL
      for (int i = 0; i < together; ++i) Format::load(x, from, first + i * Format::step_values, end, in[i]);
      Format::encode(x, in, first, end, p.input_scales, sink);
    }
    if (at.piece != 0) return;
    x.each(p.s.top_k, [&](int k) {
      const float weight =
          p.topk_weights != nullptr ? x.read(p.topk_weights + at.token * p.s.top_k + k) : 1.0f;
      x.write(reinterpret_cast<float*>(to + p.window.weights_at) + k, weight);
    });
  }

  /// One lane: a copy to each rank that wants it, its own last.
  template <class X>
  BATON_FN void send_piece(X& x, const std::byte* from, const token_piece& at, std::uint32_t ranks) const {
    const int bytes = at.piece == 0 ? p.window.piece_stride : p.window.weights_at;
    for (int i = 1, to = p.s.rank; i <= p.s.num_ranks; ++i) {
      if (++to == p.s.num_ranks) to = 0;
      if ((ranks >> to & 1) == 0) continue;
      x.bulk_store(p.windows.at[to] + p.window.piece_at(p.s, epoch, p.s.rank, at.token, at.piece), from,
                   bytes);
    }
    x.bulk_commit();
  }
};

}  // namespace baton::ep::per_rank_chunks
