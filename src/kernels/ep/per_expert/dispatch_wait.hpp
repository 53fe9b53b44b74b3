#pragma once
// dispatch_wait: tokens[row, :], scales[:, row], sources[row] = message(pair, slot), rows grouped by local
// expert, then source rank, then slot; row_offsets, row_counts and expert_ids describe the groups.
//
//   step      who               does
//   begin     each block        returns at once if a wait of this rank gave up in an earlier kernel
//   collect   block 0           waits for the arrival word of each pair (arrival.hpp); lays out the rows; opens
//                               the gate, or refuses if there is no room for them
//   pass      warp 0 of each    waits for the gate (gate.hpp)
//   copy      a warp a unit     a row, or some of its steps, evenly over the grid
//   leave     last block out    closes the gate, completes the round
//
//   block 0  | wait words, prefix sums, open | copy ... | leave        |
//   block 1  | wait for the gate .......     | copy ... | leave, close |
#include "exec/exec.hpp"
#include "kernels/ep/per_expert/params.hpp"
#include "kernels/ep/per_expert/row_copy.hpp"
#include "kernels/ep/per_expert/row_table.hpp"
#include "kernels/ep/per_expert/waiting.hpp"
#include "kernels/ep/row_reports.hpp"
#include "kernels/ep/row_scales.hpp"
#include "kernels/ep/token_format.hpp"
#include "protocol/gate.hpp"

namespace baton::ep {

template <class Arrival>
struct dispatch_wait_kernel {
  using plan = dispatch_wait_plan;

  template <exec_context X>
  static BATON_FN void run(X& x, const dispatch_wait_params& p) {
    const dispatch_wait_plan shared{p.s};
    const int pairs = p.s.num_local_experts(p.s.rank) * p.s.num_ranks;
    const row_table table{shared.rows.prefix(x), shared.rows.first_row(x), pairs};
    const gate_cells gate{p.counters.offsets_ready(), p.counters.dispatch_departed()};
    std::uint32_t epoch = 0;
    if (!begin_wait(x, &p.rounds->dispatch, shared, epoch)) return;
    if (x.block() == 0 && !lay_out(x, p, pairs, epoch, gate, shared)) return;
    if (!pass_gate_together(x, shared, gate, ep_gate_sites::offsets_ready(), epoch)) return;
    table.build(x, p.counters, p.s);
    copy_rows(x, p, table);
    x.sync_block();
    if (x.warp() != 0) return;
    x.elect([&] {
      if (leave_gate(x, gate)) x.write(&p.rounds->dispatch, epoch);
    });
  }

 private:
  template <class X>
  static BATON_FN bool lay_out(X& x, const dispatch_wait_params& p, int pairs, std::uint32_t epoch,
                               const gate_cells& gate, const waiting_plan& shared) {
    const auto word = [&](int pair) { return p.count + pair; };
    const auto any = [](int) { return -1; };
    const auto note = [&](int pair, int rows) { x.write(p.counters.row_count(pair), rows); };
    const arrival_set set{.pairs = pairs,
                          .num_ranks = p.s.num_ranks,
                          .capacity = p.s.max_tokens,
                          .epoch = epoch,
                          .where = arrival_sites::dispatch()};
    if (!collect_arrivals<Arrival>(x, set, shared, word, any, note)) return false;
    if (x.warp() == 0) {
      int before = 0;
      for (int begin = 0; begin < pairs / p.s.num_ranks; begin += warp_lanes)
        before = lay_out_experts(x, p, begin, before);
      x.sync_warp();  // all lanes' layout is behind the gate
      x.elect([&] {
        if (before > p.s.max_rows()) return refuse_rows(x, p, pairs, epoch);
        x.write(p.row_offsets + pairs / p.s.num_ranks, before);
        tell_host(x, p.reports, pairs / p.s.num_ranks, before);
        open_gate(x, gate);
      });
    }
    return true;
  }

  /// Names the rank that announced the most rows: more than a rank may send.
  template <class X>
  static BATON_FN void refuse_rows(X& x, const dispatch_wait_params& p, int pairs, std::uint32_t epoch) {
    int most = 0, rank = 0;
    for (int r = 0; r < p.s.num_ranks; ++r) {
      int rows = 0;
      for (int pair = r; pair < pairs; pair += p.s.num_ranks) rows += x.read(p.counters.row_count(pair));
      if (rows > most) most = rows, rank = r;
    }
    const auto room = static_cast<std::uint64_t>(p.s.max_rows_of_rank());
    x.refuse({.where = refusal_sites::rows(), .peer = rank, .epoch = epoch, .expected = room},
             static_cast<std::uint64_t>(most));
  }

  /// Rows of 32 experts from `begin`; returns the first row after them.
  template <class X>
  static BATON_FN int lay_out_experts(X& x, const dispatch_wait_params& p, int begin, int before) {
    const int experts = p.s.num_local_experts(p.s.rank), ranks = p.s.num_ranks;
    typename X::template lanes<int> padded, sum;
    x.each_lane([&](int lane) {
      int rows = 0;
      for (int r = 0; begin + lane < experts && r < ranks; ++r) {
        rows += x.read(p.counters.row_count((begin + lane) * ranks + r));
        x.write(p.counters.rank_prefix((begin + lane) * ranks + r), rows);
      }
      sum[lane] = padded[lane] = align_up(rows, p.s.row_alignment());
      if (begin + lane >= experts) return;
      x.write(p.row_counts + begin + lane, rows);
      report_rows(x, p.reports, begin + lane, rows);
    });
    inclusive_scan(x, sum);
    x.each_lane([&](int lane) {
      const int expert = begin + lane;
      if (expert >= experts) return;
      const int first = before + sum[lane] - padded[lane];
      x.write(p.row_offsets + expert, first);
      x.write(p.expert_ids + expert, p.s.first_expert(p.s.rank) + expert);
      for (int r = 0; r < ranks; ++r) {
        const int pair = expert * ranks + r;
        x.write(p.counters.end_row(pair), first + x.read(p.counters.rank_prefix(pair)));
      }
    });
    return before + x.broadcast(sum, warp_lanes - 1);
  }

  template <class X>
  static BATON_FN void copy_rows(X& x, const dispatch_wait_params& p, const row_table& table) {
    const int warps = x.num_blocks() * x.num_warps(), rows = table.rows(x);
    const row_units units = units_for(steps_of(p.s), rows, warps);
    for (int unit = x.warp() * x.num_blocks() + x.block(); unit < rows * units.per_row; unit += warps) {
      const row_place at = table.find(x, unit / units.per_row);
      const int nth = unit % units.per_row;
      const std::byte* message = p.receive + message_offset(p.s, at.pair, at.slot);
      std::byte* row = p.tokens + static_cast<std::int64_t>(at.row) * p.s.payload_bytes();
      copy_steps(x, row, message, p.s.payload_bytes(), units.begin(nth), units.end(nth));
      if (nth == 0) copy_particulars(x, p, message, at.row);
    }
  }

  /// Scales, and where the row came from.
  template <class X>
  static BATON_FN void copy_particulars(X& x, const dispatch_wait_params& p, const std::byte* message,
                                        int row) {
    if (p.s.scale_blocks() > 0)
      row_scales::of_row(p.s.facts, p.s.received_scales(), p.scales, row)
          .copy_all(x, message + p.s.payload_bytes(), 0, p.s.scale_bytes());
    x.elect([&] {
      x.write(p.sources + row, x.read(reinterpret_cast<const source_info*>(message + p.s.trailer_offset())));
    });
  }
};

}  // namespace baton::ep
