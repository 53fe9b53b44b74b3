#pragma once
// combine_wait: out[t, :] = sum over k, ascending, of weight(t, k) * reply[t, k, :], in fp32, and last the token's row of
// shared experts, if there are some; or the K rows unreduced. Choices that were not sent (id -1, out of range, over
// capacity) contribute nothing.
//
//   step      who               does
//   begin     each block        returns at once if a wait of this rank gave up in an earlier kernel
//   collect   block 0           waits for the words of all experts of all ranks (arrival.hpp); opens the gate, or
//                               refuses if a word does not say as many rows as were sent to that expert
//   pass      warp 0 of each    waits for the gate (gate.hpp)
//   reduce    a warp a unit     a token, or some of its steps: 8 columns a lane and step
//   leave     last block out    closes the gate, completes the round
#include "base/add_weighted.hpp"
#include "exec/exec.hpp"
#include "kernels/ep/per_expert/params.hpp"
#include "kernels/ep/per_expert/waiting.hpp"
#include "protocol/gate.hpp"

namespace baton::ep {

template <class Arrival>
struct combine_wait_kernel {
  using plan = combine_wait_plan;
  static constexpr int lane_values = 8;
  static constexpr int batch = 4;  // replies a lane has in flight

  template <exec_context X, class Params>
  static BATON_FN void run(X& x, const Params& p) {
    const combine_wait_plan shared{p.s};
    const gate_cells gate{p.counters.combine_ready(), p.counters.combine_departed()};
    std::uint32_t epoch = 0;
    if (!begin_wait(x, &p.rounds->combine, shared, epoch)) return;
    if (x.block() == 0 && !collect(x, p, epoch, gate, shared)) return;
    if (!pass_gate_together(x, shared, gate, ep_gate_sites::combine_ready(), epoch)) return;
    reduce(x, p);
    x.sync_block();
    if (x.warp() != 0) return;
    x.elect([&] {
      if (leave_gate(x, gate)) x.write(&p.rounds->combine, epoch);
    });
  }

 private:
  template <class X, class Params>
  static BATON_FN bool collect(X& x, const Params& p, std::uint32_t epoch, const gate_cells& gate,
                               const waiting_plan& shared) {
    const auto word = [&](int pair) -> std::uint64_t* {
      const bool exists = pair / p.s.num_ranks < p.s.num_local_experts(pair % p.s.num_ranks);
      return exists ? p.count + pair : nullptr;
    };
    const auto sent = [&](int pair) {
      const int rank = pair % p.s.num_ranks;
      return x.read(p.sent_counts + p.s.first_expert(rank) + pair / p.s.num_ranks);
    };
    const auto ignore = [](int, int) {};
    const arrival_set set{.pairs = p.s.num_pairs(),
                          .num_ranks = p.s.num_ranks,
                          .capacity = p.s.max_tokens,
                          .epoch = epoch,
                          .where = arrival_sites::combine(),
                          .refused = refusal_sites::count()};
    if (!collect_arrivals<Arrival>(x, set, shared, word, sent, ignore)) return false;
    if (x.warp() == 0) x.elect([&] { open_gate(x, gate); });
    return true;
  }

  template <class X, class Params>
  static BATON_FN void reduce(X& x, const Params& p) {
    const int warps = x.num_blocks() * x.num_warps(), units = p.num_tokens * p.units.per_row;
    for (int unit = x.warp() * x.num_blocks() + x.block(); unit < units; unit += warps) {
      const int token = unit / p.units.per_row, nth = unit % p.units.per_row;
      for (int step = p.units.begin(nth); step < p.units.end(nth); ++step) {
        x.each_lane([&](int lane) {
          const int column = (step * warp_lanes + lane) * lane_values;
          if (column < p.s.hidden) reduce_columns(x, p, token, column);
        });
      }
    }
  }

  /// One lane: 8 columns of all replies to a token.
  template <class X, class Params>
  static BATON_FN void reduce_columns(X& x, const Params& p, int token, int column) {
    float sum[lane_values] = {};
    vec16 shared{};
    if constexpr (Output<Params>::is_reduced)
      if (p.shared.present()) shared = x.read(p.shared.of(token, p.s.hidden, column));
    int damaged = -1;  // a choice of which dispatch_async noted neither a slot nor -1
    for (int first = 0; first < p.s.top_k; first += batch) {
      vec16 values[batch];
      bool sent[batch];
      for (int j = 0; j < batch; ++j) {
        const int k = first + j;
        const std::int32_t slot = k < p.s.top_k ? x.read(p.send_slots + token * p.s.top_k + k) : -1;
        sent[j] = slot >= 0 && slot < p.s.max_tokens;
        if (!sent[j] && slot != -1) damaged = k;
        values[j] = {};
        if (!sent[j]) continue;
        values[j] =
            x.read(reinterpret_cast<const vec16*>(p.reply + reply_offset(p.s, token, k) + 2 * column));
      }
      for (int j = 0; j < batch && first + j < p.s.top_k; ++j) {
        if constexpr (!Output<Params>::is_reduced) {
          p.output(x, token, first + j, column, values[j]);
        } else if (sent[j]) {
          add_weighted(sum, p.router_weights(token, first + j), values[j].word);
        }
      }
    }
    if constexpr (Output<Params>::is_reduced) {
      if (p.shared.present()) add_weighted(sum, p.shared.weight, shared.word);
      p.output(x, token, column, sum);
    }
    if (damaged >= 0) refuse_slot(x, p, token, damaged);
  }

  template <class X, class Params>
  static BATON_FN void refuse_slot(X& x, const Params& p, int token, int k) {
    const std::uint64_t choice = static_cast<std::uint64_t>(token) << 32 | static_cast<std::uint32_t>(k);
    x.refuse({.where = refusal_sites::slot(), .peer = p.s.rank}, choice);
  }

  template <class Params>
  using Output = decltype(Params::output);
};

}  // namespace baton::ep
