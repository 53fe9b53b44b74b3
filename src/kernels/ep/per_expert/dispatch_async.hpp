#pragma once
// dispatch_async: for every token t and choice k with expert e = topk_idx[t, k]:
//   receive buffer of e's rank [local(e), my rank, slot, :] = encode(tokens[t, :]) | {t, k, my rank, seal}
//   slot = number of earlier (t', k') with the same expert
//
//   step      who                 does
//   begin     each block          returns at once if a wait of this rank has given up
//   count     all blocks          read all ids: total[e], and base[e] = those before the block's own tokens
//   place     all lanes           tile of ids: slot = base[e] + equal ids earlier in the tile; message address
//   send      a warp a unit       a token, or some of its steps: read and encode once, store to all its messages
//   complete  a lane an expert    finished[e] += the block's units; last one: rank_completion[d] += 1;
//             a warp a rank       last one of rank d publishes d's arrival words
//                                 (completion.hpp, arrival.hpp)
//
//   block 0  | count | place send | place send | complete          |
//   block 1  | count | place send | place send | complete, publish |     blocks never wait for each other
//
// Every block counts all ids itself: T*K ids from L2 cost microseconds, a grid-wide scan would cost a wait.
// Tokens are stored straight to the peers of the p2p group, and to the send buffer for others, to whom the warp that has a
// token's messages there puts them (peer_window.hpp).
#include "base/convert.hpp"
#include "exec/exec.hpp"
#include "exec/kernel.hpp"
#include "kernels/ep/expert_ids.hpp"
#include "kernels/ep/per_expert/params.hpp"
#include "kernels/ep/per_expert/round_start.hpp"
#include "kernels/ep/per_expert/shared_plan.hpp"
#include "kernels/ep/token_format.hpp"
#include "protocol/arrival.hpp"
#include "protocol/completion.hpp"

namespace baton::ep {

/// The units of a block: a contiguous range of all tokens'.
struct block_units {
  int begin, end, per_token;
  BATON_FN block_units(int num_tokens, int units_of_token, int block, int num_blocks)
      : begin{static_cast<int>(std::int64_t{num_tokens} * units_of_token * block / num_blocks)},
        end{static_cast<int>(std::int64_t{num_tokens} * units_of_token * (block + 1) / num_blocks)},
        per_token{units_of_token} {}
  BATON_FN int first_token() const { return begin / per_token; }
  BATON_FN int end_token() const { return ceil_div(end, per_token); }
  BATON_FN int of(int token) const {
    return smaller(end, (token + 1) * per_token) - larger(begin, token * per_token);
  }
};

/// What is the same for every format and every kind of arrival.
struct dispatch_async_steps {
  using plan = dispatch_async_plan;

  /// Clears the counts. False in all warps: a wait of this rank gave up earlier, so what is here is not of this round.
  template <class X, class Params>
  static BATON_FN bool begin(X& x, const Params& p, const plan& shared) {
    x.block_each(shared.zeroes(), [&](int i) { x.write(shared.complete(x) + i, 0); });
    note_round_start(x, &p.rounds->dispatch, shared.start);
    x.sync_block();
    return goes_on(x, shared.start.aborted(x));
  }

  template <class X, class Params>
  static BATON_FN void count(X& x, const Params& p, const block_units& units, const plan& shared) {
    const int own_begin = units.first_token() * p.s.top_k;
    x.block_each(p.num_tokens * p.s.top_k, [&](int i) {
      const std::int32_t id = read_id(x, p.topk_idx, i);
      if (id >= 0 && id < p.s.num_experts) {
        add_shared(x, shared.total(x) + id, 1);
        if (i < own_begin) add_shared(x, shared.base(x) + id, 1);
      } else if (id != -1 && x.block() == 0) {
        report_bad_id(x, p.errors, i, given_id(x, p.topk_idx, i));
      }
    });
    x.sync_block();
  }

  /// Addresses of the messages of tokens [begin, end), and the slots for combine_wait.
  template <class X, class Params>
  static BATON_FN void place(X& x, const Params& p, const block_units& units, const plan& shared, int begin,
                             int end) {
    const int ids = (end - begin) * p.s.top_k, first = begin * p.s.top_k;
    x.block_each(ids, [&](int i) {
      const std::int32_t id = read_id(x, p.topk_idx, first + i);
      x.write(shared.ids(x) + i, id >= 0 && id < p.s.num_experts ? id : -1);
    });
    x.sync_block();
    x.block_each(ids, [&](int i) {
      const std::int32_t id = x.read(shared.ids(x) + i);
      int slot = -1;
      if (id >= 0) {
        slot = x.read(shared.base(x) + id);
        for (int j = 0; j < i; ++j) slot += x.read(shared.ids(x) + j) == id ? 1 : 0;
        if (slot >= p.s.max_tokens) slot = -1;
      }
      const int token = begin + i / p.s.top_k;
      if (slot >= 0) add_shared(x, shared.own(x) + id, units.of(token));
      if (token * units.per_token >= units.begin) x.write(p.send_slots + first + i, slot);
      x.write(shared.message(x) + i, slot < 0 ? nullptr : message_of(p, first + i, id, slot));
    });
    x.sync_block();
    x.block_each(ids, [&](int i) {
      const std::int32_t id = x.read(shared.ids(x) + i);
      if (id >= 0) add_shared(x, shared.base(x) + id, 1);
    });
  }

  template <class Params>
  static BATON_FN std::byte* message_of(const Params& p, int choice, int expert, int slot) {
    const expert_home home = p.s.home(expert);
    return p.receive.of(home.rank, choice) + message_offset(p.s, home.local * p.s.num_ranks + p.s.rank, slot);
  }

  /// The warp has written all messages of a token, the nth of the tile.
  template <class X, class Params>
  static BATON_FN void put(X& x, const Params& p, const plan& shared, int token, int nth) {
    for (int k = 0; k < p.s.top_k; ++k) {
      const int choice = token * p.s.top_k + k;
      const int slot = x.from_one([&] { return x.read(p.send_slots + choice); });
      if (slot < 0) continue;
      const int expert = x.from_one([&] { return x.read(shared.ids(x) + nth * p.s.top_k + k); });
      const expert_home home = p.s.home(expert);
      p.receive.put(x, home.rank, message_offset(p.s, home.local * p.s.num_ranks + p.s.rank, slot), choice);
    }
  }

  /// Counts the block's units; marks the ranks whose last expert this block completed.
  template <class X, class Params>
  static BATON_FN void complete(X& x, const Params& p, const plan& shared) {
    x.sync_block();
    x.block_each(p.s.num_experts, [&](int e) {
      const int own = x.read(shared.own(x) + e);
      const int sent = smaller(x.read(shared.total(x) + e), p.s.max_tokens), target = sent * p.units.per_row;
      if (x.block() == 0) x.write(p.sent_counts + e, sent);
      const bool done = target == 0 ? e % x.num_blocks() == x.block()
                                    : own > 0 && finish(x, p.counters.finished(e), own, target);
      if (!done) return;
      const int rank = p.s.home(e).rank;
      if (finish(x, rank_completion(p, rank), 1, p.s.num_local_experts(rank))) {
        x.write(shared.complete(x) + rank, 1);
      }
    });
    x.sync_block();
  }

  /// Beyond the p2p group there are more ranks than that region has cells for, but no more than experts.
  template <class Params>
  static BATON_FN std::int32_t* rank_completion(const Params& p, int rank) {
    return Params::window::goes_by_put ? p.counters.reserved(rank) : p.counters.rank_completion(rank);
  }
};

/// What a format says.
template <class Format>
struct message_sender {
  using plan = dispatch_async_plan;

  template <class X, class Params>
  static BATON_FN void send(X& x, const Params& p, const block_units& units, const plan& shared, int begin,
                            int end) {
    const int first = larger(units.begin, begin * units.per_token);
    const int last = smaller(units.end, end * units.per_token);
    for (int unit = first + x.warp(); unit < last; unit += x.num_warps()) {
      const int token = unit / units.per_token, nth = unit % units.per_token;
      std::byte* const* messages = shared.message(x) + (token - begin) * p.s.top_k;
      const fan_out<X> sink{x, messages, p.s.top_k, p.s.payload_bytes()};
      const typename Format::source values = Format::token(p, token);
      for (int step = p.units.begin(nth); step < p.units.end(nth); ++step) {
        typename X::template lanes<typename Format::lane_input> in[1];
        Format::load(x, values, step * Format::step_values, p.s.hidden, in[0]);
        Format::encode(x, in, step * Format::step_values, p.s.hidden, p.input_scales, sink);
      }
      if (nth == 0) {
        static_assert(max_top_k <= warp_lanes);
        x.each_lane([&](int k) {
          std::byte* message = k < p.s.top_k ? x.read(messages + k) : nullptr;
          if (message == nullptr) return;
          source_info source{token, k, p.s.rank, 0};
          const std::int32_t expert = x.read(shared.ids(x) + (token - begin) * p.s.top_k + k);
          source.seal = seal_of<Params::window::most_ranks>(source, expert, x.read(shared.start.epoch(x)));
          x.write(reinterpret_cast<source_info*>(message + p.s.trailer_offset()), source);
        });
      }
      if constexpr (Params::window::goes_by_put)
        dispatch_async_steps::put(x, p, shared, token, token - begin);
    }
  }

 private:
  /// Stores what a step yields to every message of the token.
  template <class X>
  struct fan_out {
    X& x;
    std::byte* const* messages;
    int num_messages;
    int scales_offset;

    BATON_FN void payload(int offset, const vec16& bits) const {
      for (int k = 0; k < num_messages; ++k) {
        std::byte* message = x.read(messages + k);
        if (message != nullptr) x.write(reinterpret_cast<vec16*>(message + offset), bits);
      }
    }
    template <class Scale>
    BATON_FN void scale(int block, Scale value) const {
      for (int k = 0; k < num_messages; ++k) {
        std::byte* message = x.read(messages + k);
        if (message != nullptr) x.write(reinterpret_cast<Scale*>(message + scales_offset) + block, value);
      }
    }
  };
};

/// What a kind of arrival says.
template <class Arrival>
struct rank_publisher {
  using plan = dispatch_async_plan;

  template <class X, class Params>
  static BATON_FN void publish_ranks(X& x, const Params& p, const plan& shared) {
    for (int rank = x.warp(); rank < p.s.num_ranks; rank += x.num_warps()) {
      if (x.from_one([&] { return x.read(shared.complete(x) + rank); }) == 0) continue;
      x.each(p.s.num_local_experts(rank), [&](int local) {
        const int sent = smaller(x.read(shared.total(x) + p.s.first_expert(rank) + local), p.s.max_tokens);
        publish<Arrival>(x, p.count.of(rank) + local * p.s.num_ranks + p.s.rank,
                         x.read(shared.start.epoch(x)), sent);
      });
    }
  }
};

template <class Format, class Arrival>
struct dispatch_async_kernel : private dispatch_async_steps {
  /// A block an SM is what it is launched with; without a promise the compiler spills to have room for two.
  static constexpr kernel_bounds bounds{.blocks_per_sm = 1};

  template <exec_context X, class Params>
  static BATON_FN void run(X& x, const Params& p) {
    const block_units units{p.num_tokens, p.units.per_row, x.block(), x.num_blocks()};
    const plan shared{p.s, Params::window::most_ranks};
    if (!begin(x, p, shared)) return;
    count(x, p, units, shared);
    const int tile_tokens = tile_ids / p.s.top_k;
    for (int t = units.first_token(); t < units.end_token(); t += tile_tokens) {
      const int end = smaller(t + tile_tokens, units.end_token());
      place(x, p, units, shared, t, end);
      message_sender<Format>::send(x, p, units, shared, t, end);
      x.sync_block();
    }
    complete(x, p, shared);
    rank_publisher<Arrival>::publish_ranks(x, p, shared);
  }
};

}  // namespace baton::ep
