#pragma once
// Chunks of this rank's tokens, to the ranks of their experts.
//
// Some values are on their way while others are cast, across tokens too; chunks are published when copies of the next one have
// been asked for, so that a warp waits for a round trip between GPUs at its last only: one by one, or, where a block sends many
// and each fence holds up its multiprocessor, some with one fence.
//
// R3: what a warp casts happens before copies read it: each lane fences, sync_warp, then one lane asks for them. They have read
//     it before it is cast into again: bulk_wait_read.
// T3: a chunk's pieces happen before its arrival word is seen: the warp waits until its copies are done, then publishes (E1
//     of protocol/arrival.hpp). A word says how many of the chunk's tokens were sent, which the receiver knows from the ids.
#include "base/bits.hpp"
#include "kernels/ep/per_rank/id_lines.hpp"
#include "kernels/ep/per_rank_chunks/plan.hpp"
#include "kernels/ep/per_rank_chunks/two_levels.hpp"
#include "kernels/ep/token_format.hpp"
#include "protocol/arrival.hpp"

namespace baton::ep::per_rank_chunks {

/// A piece of a token of this rank; no token: none is left.
struct token_piece {
  int token = -1, piece = 0;
};

/// One lane: copies of a staged piece to its places in the token at `token`.
template <class X>
BATON_FN void store_span(X& x, std::byte* token, const std::byte* piece, const piece_span& span) {
  x.bulk_store(token + span.begin, piece, span.is_one() ? span.bytes + span.rest_bytes : span.bytes);
  if (!span.is_one()) x.bulk_store(token + span.rest, piece + span.bytes, span.rest_bytes);
}

/// Where a warp stages what it sends.
struct staging {
  std::byte* pieces;  // [stages, piece_room]
  int stages, next;
};

/// Chunks whose copies have been asked for, and of which nobody was told: as many as lanes have room for, so that one fence is
/// for all.
template <class X>
struct sent_chunks {
  int held = 0;
  // Of the i-th chunk: the i-th so many lanes have its number, and how many tokens of it their rank is sent (rank_lanes).
  typename X::template lanes<int> nth{}, wanted{};

  /// Tokens of it that rank r is sent: lane r of `of_ranks`.
  template <class Ranks>
  BATON_FN void hold(X& x, const Ranks& ranks, int chunk, const typename X::template lanes<int>& of_ranks) {
    typename X::template lanes<int> from;
    x.each_lane([&](int lane) { from[lane] = ranks.rank_of(lane); });
    const auto of_rank = x.shuffle(of_ranks, from);
    x.each_lane([&](int lane) {
      if (ranks.nth_of(lane) != held) return;
      nth[lane] = chunk;
      wanted[lane] = of_rank[lane];
    });
    ++held;
  }
};

/// Tells ranks of chunks.
template <class P>
struct chunk_teller {
  const P& p;
  per_rank::member_round round;

  template <class X>
  BATON_FN void tell(X& x, sent_chunks<X>& chunks) const {
    if constexpr (P::goes_by_put) put_chunks(x, chunks);
    const auto ranks = p.of_lanes();
    x.each_lane([&](int lane) {
      if (ranks.nth_of(lane) >= chunks.held || chunks.wanted[lane] == 0) return;
      if constexpr (P::goes_by_put)
        if (!p.far.near.has(ranks.rank_of(lane))) return;
      x.fence_proxy_async_global();
      auto* word = p.window_of(ranks.rank_of(lane)) +
                   p.window.token_word_at(p.s, round.epoch, p.s.rank, chunks.nth[lane]);
      publish<epoch_arrival>(x, reinterpret_cast<std::uint64_t*>(word),
                             static_cast<std::uint32_t>(round.epoch), chunks.wanted[lane]);
    });
    x.sync_warp();  // or the compiler takes the warp for parted from here on
    chunks.held = 0;
  }

 private:
  /// To ranks beyond the group, from this rank's own window, where copies have brought them: each token, and the word of its
  /// chunk. That a copy is done is a fence of the proxy, for the lane that asked for it; the others meet it.
  template <class X>
  BATON_FN void put_chunks(X& x, const sent_chunks<X>& chunks) const {
    if (p.window.chunk_tokens == 1) return put_tokens(x, chunks);
    const auto ranks = p.of_lanes();
    const auto put_all = [&] {
      for (int i = 0; i < chunks.held; ++i) put_chunk(x, x.broadcast(chunks.nth, ranks.first_of(i)));
    };
    put_and_tell(x, put_all, [&](int lane) {
      if (!is_put(chunks, lane)) return;
      tell_of_puts(x, [&] {
        const int to = ranks.rank_of(lane);
        auto* word = p.window_of(to) + far_word_at(chunks.nth[lane]);
        return word_of_round(to, word, static_cast<std::uint32_t>(round.epoch),
                             static_cast<std::uint32_t>(chunks.wanted[lane]));
      });
    });
  }

  /// Whether a lane's rank is beyond the group and is sent something of the lane's chunk.
  template <class X>
  BATON_FN bool is_put(const sent_chunks<X>& chunks, int lane) const {
    const auto ranks = p.of_lanes();
    return ranks.nth_of(lane) < chunks.held && chunks.wanted[lane] != 0 &&
           !p.far.near.has(ranks.rank_of(lane));
  }

  /// Chunks of one token: a put has the chunk's word, and no fence is needed.
  template <class X>
  BATON_FN void put_tokens(X& x, const sent_chunks<X>& chunks) const {
    typename X::template lanes<bool> put;
    x.each_lane([&](int lane) { put[lane] = is_put(chunks, lane); });
    put_each_and_tell(x, x.ballot(put), [&](int lane) {
      const int to = p.of_lanes().rank_of(lane), token = x.broadcast(chunks.nth, lane);
      const std::size_t at = p.window.token_at(p.s, round.epoch, p.s.rank, token);
      return signalled_put{p.window_of(to) + at, p.window_of(p.s.rank) + at, p.window.token_bytes,
                           word_of_round(to, p.window_of(to) + far_word_at(token),
                                         static_cast<std::uint32_t>(round.epoch), 1)};
    });
  }

  template <class X>
  BATON_FN void put_chunk(X& x, int chunk) const {
    const int first = chunk * p.window.chunk_tokens,
              end = smaller(p.num_tokens, first + p.window.chunk_tokens);
    for (int token = first; token < end; ++token) {
      const std::uint32_t wanted = reached(p, x.from_one([&] { return x.read(p.rank_sets + token); }));
      const std::size_t at = p.window.token_at(p.s, round.epoch, p.s.rank, token);
      for (std::uint32_t left = wanted & ~p.far.near_ranks(); left != 0; left &= left - 1) {
        const int to = lowest_bit(left);
        x.put(to, p.window_of(to) + at, p.window_of(p.s.rank) + at, p.window.token_bytes);
      }
    }
  }

  /// In the window of a rank beyond the group.
  BATON_FN std::size_t far_word_at(int chunk) const {
    if constexpr (P::has_two_levels)
      return p.groups.cells.forward_word_at(p.window, round.epoch, p.group_of(p.s.rank), chunk);
    else
      return p.window.token_word_at(p.s, round.epoch, p.s.rank, chunk);
  }
};

/// Pieces of tokens, in a format, wherever the ranks are; levels are nothing to it.
template <class Format, class P>
struct piece_sender {
  /// Steps whose loads are in flight together, half a group: as many as a lane has registers for.
  static constexpr int together = sizeof(typename Format::lane_input) > 2 * sizeof(vec16) ? 1 : 4;
  static constexpr int of_scale = payload_of_scale_byte(facts_of(Format::format));
  static constexpr int half_values = together * Format::step_values;
  template <class X>
  struct half {
    typename X::template lanes<typename Format::lane_input> of[together];
  };

  const P& p;
  per_rank::member_round round;

  /// The values of a piece from `first` on.
  struct piece_values {
    typename Format::source token;
    int first, end;
  };
  BATON_FN piece_values values_of(const token_piece& at) const {
    if (at.token < 0) return {Format::token(p, 0), 0, 0};
    const int values = p.window.piece_payload * Format::step_values / step_bytes, begin = at.piece * values;
    return {Format::token(p, at.token), begin, smaller(p.s.hidden, begin + values)};
  }

  template <class X>
  BATON_FN void load(X& x, const piece_values& from, half<X>& to) const {
    BATON_UNROLL
    for (int i = 0; i < together; ++i)
      Format::load(x, from.token, from.first + i * Format::step_values, from.end, to.of[i]);
  }

  /// The ranks that want it and are there: bit r. `begin` holds its first values, and then those of token `behind`.
  template <class X>
  BATON_FN std::uint32_t send_token(X& x, staging& stage, int token, int behind, half<X>& begin) const {
    typename X::template lanes<std::int32_t> id;
    typename X::template lanes<float> weight;
    x.each_lane([&](int k) {
      const bool is_choice = k < p.s.top_k;
      id[k] = is_choice ? read_id(x, p.ids(), token * p.s.top_k + k) : -1;
      weight[k] =
          is_choice && p.topk_weights != nullptr ? x.read(p.topk_weights + token * p.s.top_k + k) : 1.0f;
    });
    std::uint32_t ranks = 0;
    for (int piece = 0; piece < p.window.pieces; ++piece) {
      std::byte* to = stage.pieces + stage.next * p.window.piece_room;
      if (stage.stages == 1)
        x.bulk_wait_read();
      else
        x.template bulk_wait_read<1>();
      const bool is_last = piece + 1 == p.window.pieces;
      stage_piece(x, to, {token, piece}, is_last ? token_piece{behind, 0} : token_piece{token, piece + 1},
                  begin);
      const piece_span span = p.window.span_of(piece, of_scale);
      if (is_last) {
        auto* weights = reinterpret_cast<float*>(to + span.bytes + (p.window.weights_at - span.rest));
        x.each_lane([&](int k) {
          if (k < num_weights()) x.write(weights + k, weight[k]);
        });
      }
      if (piece == 0) {
        ranks = per_rank::ranks_of(x, p, id) & ~round.absent;
        if (ranks == 0) {
          if (!is_last) load(x, values_of({behind, 0}), begin);
          break;
        }
      }
      x.each_lane([&](int) { x.fence_proxy_async(); });
      x.sync_warp();
      x.elect([&] { send_piece(x, to, span, token, copied_to(ranks)); });
      if (++stage.next == stage.stages) stage.next = 0;
    }
    x.elect([&] { x.write(p.rank_sets + token, ranks); });
    return ranks;
  }

 private:
  /// A network reads what a token is padded with, too.
  BATON_FN int num_weights() const {
    if constexpr (P::goes_by_put)
      return align_up_to_power(p.s.top_k, static_cast<int>(sizeof(vec16) / sizeof(float)));
    else
      return p.s.top_k;
  }

  /// Whom copies go to: where ranks beyond the group want it, this rank's own window too, from where it is put.
  BATON_FN std::uint32_t copied_to(std::uint32_t ranks) const {
    if constexpr (P::goes_by_put) {
      const std::uint32_t near = p.far.near_ranks();
      return (ranks & near) | ((ranks & ~near) != 0 ? 1u << p.s.rank : 0u);
    } else {
      return ranks;
    }
  }

  /// Casts a piece whose first values `begin` holds; then it holds those of the next.
  template <class X>
  BATON_FN void stage_piece(X& x, std::byte* to, const token_piece& at, const token_piece& next,
                            half<X>& begin) const {
    const shared_sink<X> sink{x, to, to + p.window.span_of(at.piece, of_scale).bytes,
                              at.piece * p.window.piece_payload, values_of(at).first / Format::scale_values};
    const piece_values behind = values_of(next);
    for (piece_values now = values_of(at); now.first < now.end; now.first += 2 * half_values) {
      const int middle = now.first + half_values, first = now.first + 2 * half_values;
      half<X> other;
      load(x, {now.token, middle, now.end}, other);
      Format::encode(x, begin.of, now.first, now.end, p.input_scales, sink);
      load(x, first < now.end ? piece_values{now.token, first, now.end} : behind, begin);
      if (middle < now.end) Format::encode(x, other.of, middle, now.end, p.input_scales, sink);
    }
  }

  /// One lane: a copy to each rank that wants it, its own last.
  template <class X>
  BATON_FN void send_piece(X& x, const std::byte* from, const piece_span& span, int token,
                           std::uint32_t ranks) const {
    const std::size_t at = p.window.token_at(p.s, round.epoch, p.s.rank, token);
    for (int i = 1, to = p.s.rank; i <= p.s.num_ranks; ++i) {
      if (++to == p.s.num_ranks) to = 0;
      if ((ranks >> to & 1) == 0) continue;
      store_span(x, p.window_of(to) + at, from, span);
    }
    x.bulk_commit();
  }
};

template <class Format, class P = dispatch_params>
struct chunk_sender {
  const P& p;
  per_rank::member_round round;
  share chunks;

  /// One warp: chunks of this rank, as long as there are some.
  template <class X>
  BATON_FN void send_all(X& x, staging stage) const {
    const piece_sender<Format, typename P::one_level> pieces{p, round};
    const chunk_teller<P> teller{p, round};
    sent_chunks<X> untold;
    typename piece_sender<Format, typename P::one_level>::template half<X> begin;
    int chunk = take_next(x, chunks);
    pieces.load(x, pieces.values_of({first_of(chunk), 0}), begin);
    for (int next; first_of(chunk) >= 0; chunk = next) {
      next = take_next(x, chunks);
      typename X::template lanes<int> wanted{};
      bool any = false;
      const int first = first_of(chunk), end = smaller(p.num_tokens, first + p.window.chunk_tokens);
      for (int token = first; token < end; ++token) {
        const int behind = token + 1 < end ? token + 1 : first_of(next);
        const std::uint32_t ranks = reached(p, pieces.send_token(x, stage, token, behind, begin));
        x.each_lane([&](int r) { wanted[r] += static_cast<int>(ranks >> r & 1); });
        any = any || ranks != 0;
      }
      if (!any) continue;
      if (untold.held >= p.roles.at_once) {
        x.template bulk_wait<1>();  // all but this chunk's last piece
        teller.tell(x, untold);
      }
      untold.hold(x, p.of_lanes(), chunk, wanted);
    }
    x.bulk_wait();
    teller.tell(x, untold);
  }

 private:
  /// Its first token; -1: there is no such chunk.
  BATON_FN int first_of(int chunk) const {
    const int token = chunk * p.window.chunk_tokens;
    return token < p.num_tokens ? token : -1;
  }
};

}  // namespace baton::ep::per_rank_chunks
