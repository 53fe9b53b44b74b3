#pragma once
// combine_async: reply buffer of sources[row].rank [token, topk_slot, :] = expert_output[row, :] for every
// received row.
//
//   step      who               does
//   table     each block        rows by pair, from region A; returns if a wait of this rank has given up
//   send      a warp a unit     a row, or some of its steps, evenly over the grid; stores straight to the peer, or puts
//                               it there from the send buffer (peer_window.hpp), or refuses if the row's source is not
//                               of this expert and round
//   complete  a lane a rank     C[d] += the block's units to rank d; the last one publishes (completion.hpp)
//   publish   a warp a rank     arrival words {round, rows} of all local experts (arrival.hpp)
//
//   block 0  | table | send ... | complete          |
//   block 1  | table | send ... | complete, publish |     blocks never wait for each other
#include "exec/exec.hpp"
#include "kernels/ep/per_expert/params.hpp"
#include "kernels/ep/per_expert/round_start.hpp"
#include "kernels/ep/per_expert/row_copy.hpp"
#include "kernels/ep/per_expert/row_table.hpp"
#include "kernels/ep/token_format.hpp"
#include "protocol/arrival.hpp"
#include "protocol/completion.hpp"

namespace baton::ep {

template <class Arrival>
struct combine_async_kernel {
  using plan = combine_async_plan;

  template <exec_context X, class Params>
  static BATON_FN void run(X& x, const Params& p) {
    const combine_async_plan shared{p.s, Params::window::most_ranks};
    const int pairs = p.s.num_local_experts(p.s.rank) * p.s.num_ranks;
    const row_table table{shared.rows.prefix(x), shared.rows.first_row(x), pairs};
    x.block_each(shared.zeroes(), [&](int i) { x.write(shared.sent(x) + i, 0); });
    note_round_start(x, &p.rounds->combine, shared.start);
    table.build(x, p.counters, p.s);
    if (!goes_on(x, shared.start.aborted(x))) return;  // the table is of an earlier round
    row_units units = units_for(reply_steps_of(p.s), table.rows(x), x.num_blocks() * x.num_warps());
    if constexpr (Params::window::goes_by_put) units.per_row = 1;  // who puts a reply has written all of it
    x.block_each(table.pairs, [&](int pair) {
      add_shared(x, shared.units(x) + pair % p.s.num_ranks, table.rows_of(x, pair) * units.per_row);
    });
    const std::uint32_t epoch = x.from_one([&] { return x.read(shared.start.epoch(x)); });
    send_rows(x, p, table, units, {shared.sent(x), epoch});
    complete(x, p, shared);
    publish_ranks(x, p, table, {shared.complete(x), epoch});
  }

 private:
  /// A cell of shared memory for each rank, and the round.
  struct rank_cells {
    std::int32_t* of_rank;
    std::uint32_t epoch;
  };

  template <class X, class Params>
  static BATON_FN void send_rows(X& x, const Params& p, const row_table& table, const row_units& units,
                                 const rank_cells& sent) {
    const int warps = x.num_blocks() * x.num_warps(), end = table.rows(x) * units.per_row;
    for (int unit = x.warp() * x.num_blocks() + x.block(); unit < end; unit += warps) {
      const row_place at = table.find(x, unit / units.per_row);
      const int nth = unit % units.per_row, rank = at.pair % p.s.num_ranks;
      const source_info source = x.from_one([&] { return x.read(p.sources + at.row); });
      const std::uint32_t seal = seal_of<Params::window::most_ranks>(
          source, p.s.first_expert(p.s.rank) + at.pair / p.s.num_ranks, sent.epoch);
      if (source.seal != seal || !is_within(p.s, source, rank)) {
        x.elect([&] {
          x.refuse({.where = refusal_sites::source(), .peer = rank, .epoch = sent.epoch, .expected = seal},
                   source.seal);
        });
        continue;  // never complete, so never published: the rank that misses it hears nothing
      }
      const std::size_t offset = reply_offset(p.s, source.token, source.topk_slot);
      std::byte* reply = p.reply.of(rank, at.row) + offset;
      const auto* row =
          reinterpret_cast<const std::byte*>(p.expert_output) + std::int64_t{at.row} * p.s.combine_bytes();
      copy_steps(x, reply, row, p.s.combine_bytes(), units.begin(nth), units.end(nth));
      if constexpr (Params::window::goes_by_put) p.reply.put(x, rank, offset, at.row);
      x.elect([&] { add_shared(x, sent.of_rank + rank, 1); });
    }
  }

  /// A row whose source is damaged must not become a store into a peer's memory.
  static BATON_FN bool is_within(const shape& s, const source_info& source, int rank) {
    return source.rank == rank && source.token >= 0 && source.token < s.max_tokens && source.topk_slot >= 0 &&
           source.topk_slot < s.top_k;
  }

  template <class X, class Params>
  static BATON_FN void complete(X& x, const Params& p, const combine_async_plan& shared) {
    x.sync_block();
    x.block_each(p.s.num_ranks, [&](int rank) {
      const int own = x.read(shared.sent(x) + rank), target = x.read(shared.units(x) + rank);
      const bool done = target == 0 ? rank % x.num_blocks() == x.block()
                                    : own > 0 && finish(x, p.counters.work(rank), own, target);
      if (done) x.write(shared.complete(x) + rank, 1);
    });
    x.sync_block();
  }

  template <class X, class Params>
  static BATON_FN void publish_ranks(X& x, const Params& p, const row_table& table,
                                     const rank_cells& complete) {
    for (int rank = x.warp(); rank < p.s.num_ranks; rank += x.num_warps()) {
      if (x.from_one([&] { return x.read(complete.of_rank + rank); }) == 0) continue;
      x.each(p.s.num_local_experts(p.s.rank), [&](int local) {
        const int rows = table.rows_of(x, local * p.s.num_ranks + rank);
        publish<Arrival>(x, p.count.of(rank) + local * p.s.num_ranks + p.s.rank, complete.epoch, rows);
      });
    }
  }
};

}  // namespace baton::ep
