#pragma once
// dispatch, layout per_rank: for every token t and rank d that has an expert among topk_idx[t, :]:
//   window of d [epoch & 1, my rank, t] = encode(tokens[t, :]) | topk_weights[t, :]
// and on every rank, for every token of every rank and each of its experts here:
//   tokens[row, :], scales[:, row], sources[row]; entries[rank, t, k] = {row, weight}
// Rows are grouped by local expert, then source rank, then token.
//
//   role      warps       does
//   send      senders     cast a unit of a token once, store its lines to every rank that wants it; then receive this rank's own
//   receive   the others  send this rank's ids; wait for all ranks' ids and find every token's rows (row_index.hpp), every
//                         block for itself; then take the units of the other ranks and write each to its rows
//
//   send      | cast, send ................................ | wait | own units -> rows ....... |
//   receive   | send ids | wait ids | note and count | number | wait a unit's lines -> rows .. |
//
// I1: in a block, one warp numbers the rows when all ids are noted; they are used when it has.
// Blocks never wait for each other. Nothing is counted by senders: a token's place is its index at its source.
#include <type_traits>

#include "exec/kernel.hpp"
#include "kernels/ep/per_rank/by_lines.hpp"
#include "kernels/ep/per_rank/early_fetch.hpp"
#include "kernels/ep/per_rank/plan.hpp"
#include "kernels/ep/per_rank/receive.hpp"
#include "kernels/ep/per_rank/round_start.hpp"
#include "kernels/ep/row_reports.hpp"
#include "kernels/ep/token_format.hpp"

namespace baton::ep::per_rank {

/// The warp that has fewest ids and units, if any.
template <class X>
BATON_FN bool is_last(const X& x) {
  return x.block() == x.num_blocks() - 1 && x.warp() == x.num_warps() - 1;
}

/// What receives, whatever this rank's ids and what it casts are. `Way`: how ids and units travel, by_lines or by_flags.
template <class Way>
struct dispatch_receiver {
  template <class X, class P>
  static BATON_FN void receive(X& x, const P& p, const dispatch_plan& shared, const member_round& now,
                               const unit_share& mine) {
    const std::uint64_t epoch = now.epoch;
    const bool sends = x.warp() < p.senders;
    // Where its first unit is likely to be: ranks mostly have as many tokens as this one.
    const unit_place likely = first_place(p, mine, p.num_tokens * p.window.token_units);
    looked_at<X> first;
    if (sends)
      Way::look(x, p, epoch, likely, first);  // its own
    else if (!index(x, p, shared, now, likely, first))
      return;
    if (!await_all(x, shared.known(x), index_sites::known())) return;
    Way::look_again(x, p, epoch, likely, first);
    const row_index<P> rows = shared.find_rows(x, p);
    if (!receive_all<Way>(x, p, rows, epoch, mine, first)) return;
    if constexpr (Way::clears)
      if (is_last(x) && !Way::await_cleared(x, p, now)) return;
    if (x.block() == 0 && x.warp() == p.senders) publish(x, p, rows, epoch);
  }

 private:
  /// Ids, as they come, into bits and counts; the first receiving warp then gives every expert its rows. False: gave up, or
  /// refused ids.
  template <class X, class P>
  static BATON_FN bool index(X& x, const P& p, const dispatch_plan& shared, const member_round& now,
                             const unit_place& likely, looked_at<X>& first_unit) {
    const row_index<P> rows = shared.find_rows(x, p);
    if (!note_all(x, p, shared, rows, now)) return false;
    Way::look(x, p, now.epoch, likely, first_unit);  // on its way while rows are numbered
    if (x.warp() != p.senders) return true;
    if (!await_all(x, shared.noted(x), index_sites::noted())) return false;
    rows.number(x);
    arrive(x, shared.known(x));
    if (x.block() == 0 && p.reports.any()) report(x, p, rows);
    return true;
  }

  template <class X, class P>
  static BATON_FN bool note_all(X& x, const P& p, const dispatch_plan& shared, const row_index<P>& rows,
                                const member_round& now) {
    const std::uint64_t epoch = now.epoch;
    typename Way::template ids<X> ids;
    int checked = -1;  // the source of `ids`, if they have not been checked
    for (int i = x.warp() - p.senders;; i += x.num_warps() - p.senders) {
      const bool last = i >= p.num_ranks() * p.window.id_accesses;
      if (last) arrive(x, shared.noted(x));
      if (checked >= 0 && !Way::sound_ids(x, p, epoch, checked, ids)) return false;
      if (last) return true;
      const int nth = p.window.by_id_accesses.quotient(i), access = i - nth * p.window.id_accesses;
      checked = p.s.rank + nth < p.num_ranks() ? p.s.rank + nth : p.s.rank + nth - p.num_ranks();
      if (!now.has(checked)) {
        x.elect([&] { x.write(rows.counts + checked, 0); });
        checked = -1;
        continue;
      }
      if (!Way::await_ids(x, p, epoch, {checked, access}, ids)) return false;
      Way::note_ids(x, p, rows, {checked, access}, ids);
    }
  }

  /// One warp, before rows are there: who asked can make room for them.
  template <class X, class P>
  static BATON_FN void report(X& x, const P& p, const row_index<P>& rows) {
    const int experts = rows.num_experts();
    x.each(experts, [&](int e) {
      const int here = rows.rows_of(x, e);
      report_rows(x, p.reports, e, here);
      if (e == experts - 1)
        tell_host(x, p.reports, experts, rows.first_row_of(x, e) + p.window.taken.by(here));
    });
  }

  /// One warp tells the caller, and combine.
  template <class X, class P>
  static BATON_FN void publish(X& x, const P& p, const row_index<P>& rows, std::uint64_t epoch) {
    const int experts = rows.num_experts();
    x.each(experts, [&](int e) {
      const int first = rows.first_row_of(x, e), here = rows.rows_of(x, e);
      x.write(p.row_offsets + e, first);
      x.write(p.row_counts + e, here);
      x.write(p.expert_ids + e, p.window.first_here + e);
      if (e == experts - 1) x.write(p.row_offsets + experts, first + p.window.taken.by(here));
    });
    x.each(p.num_ranks(), [&](int r) { x.write(p.token_counts + r, x.read(rows.counts + r)); });
    x.elect([&] {
      x.write(&p.epochs->dispatched, epoch);
      x.write(p.units_taken, 0u);  // T1 of combine.hpp
    });
  }

  template <class X>
  static BATON_FN void arrive(X& x, mbarrier* all) {
    x.sync_warp();
    x.elect([&] { x.mbarrier_arrive(all, 1); });
  }
};

template <class Format, int KnownRanks = 0, class Id = std::int32_t, class Way = by_lines>
struct dispatch_kernel {
  using params = sized<dispatch_params_of<typename Way::cells>, KnownRanks, Format::format, Id>;
  static constexpr kernel_bounds bounds{.max_threads = max_warps * warp_lanes};
  static constexpr bool has_scales = params::has_scales;

  template <line_exec_context X, class P>
  static BATON_FN void run(X& x, const P& p) {
    x.launch_dependents();
    x.fetch_params(p);
    const dispatch_plan shared{p.s, p.senders};
    prepare(x, p, shared);
    const bool sends = x.warp() < p.senders;
    const unit_share mine = share_of(x, p);
    if (sends)
      fetch_unit<Format>(x, p, mine.nth);
    else if (p.senders > 0)
      fetch_ids<Way>(x, p, mine.nth);
    x.await_dependencies();
    const auto start = begin_round(x, &p.epochs->combined, &p.epochs->absent);
    const bool aborted = sends           ? !send(x, p, shared, start, mine)
                         : p.senders > 0 ? !send_ids(x, p, start, mine)
                                         : false;
    const round_start now = x.broadcast(start, 0);
    if (aborted || now.aborted()) return;
    const typename P::without_ids& received = p;
    if (p.receives) dispatch_receiver<Way>::receive(x, received, shared, now.next(), mine);
  }

 private:
  /// Of those that send, units of this rank's tokens; of the others, units that they receive.
  template <class X, class P>
  static BATON_FN unit_share share_of(const X& x, const P& p) {
    const bool sends = x.warp() < p.senders;
    const int nth = sends ? x.warp() : x.warp() - p.senders,
              warps = sends ? p.senders : x.num_warps() - p.senders;
    unit_share mine{p.s.rank, nth * x.num_blocks() + x.block(), warps * x.num_blocks()};
    if (sends) return mine;
    if (++mine.source == p.num_ranks()) mine.source = 0;
    mine.sources = p.senders > 0 ? p.num_ranks() - 1 : p.num_ranks();  // senders take their own rank's
    return mine;
  }

  template <class X, class P>
  static BATON_FN void prepare(X& x, const P& p, const dispatch_plan& shared) {
    if (p.receives) {
      const int receivers = x.num_warps() - p.senders;
      vec16* bits = reinterpret_cast<vec16*>(shared.bits(x));
      x.block_each(shared.zeros(), [&](int i) { x.write(bits + i, vec16{}); });
      x.block_each(1, [&](int) {
        x.mbarrier_init(shared.noted(x), receivers);
        x.mbarrier_init(shared.known(x), 1);
      });
    }
    x.sync_block();
  }

  /// False: the rank has given up.
  template <class X, class P>
  static BATON_FN bool send(X& x, const P& p, const dispatch_plan& shared,
                            const typename X::template lanes<round_start>& start, const unit_share& mine) {
    std::byte* staging = shared.staging(x) + x.warp() * unit_bytes;
    for (int unit = mine.nth; unit < p.num_tokens * p.window.token_units; unit += mine.warps) {
      const int token = p.window.by_token_units.quotient(unit);
      const token_unit at{p.s.rank, token, unit - token * p.window.token_units};
      const std::uint32_t wanted = stage_unit(x, p, staging, at);
      const round_start now = x.broadcast(start, 0);
      if (now.aborted()) return false;
      send_unit(x, p, staging, now.next(), at, wanted);
    }
    return true;
  }

  template <class X, class P>
  static BATON_FN bool send_ids(X& x, const P& p, const typename X::template lanes<round_start>& start,
                                const unit_share& mine) {
    if constexpr (Way::clears) {
      if (is_last(x)) {
        const round_start now = x.broadcast(start, 0);
        if (now.aborted()) return false;
        Way::tell_cleared(x, p, now.next());
      }
    }
    for (int access = mine.nth; access < p.window.id_accesses; access += mine.warps) {
      const auto ids = Way::load_ids(x, p, access);
      const round_start now = x.broadcast(start, 0);
      if (now.aborted()) return false;
      Way::store_ids(x, p, now.next(), ids);
    }
    return true;
  }

  /// Casts a unit into `staging`, behind it scales and weights; which ranks want the token: bit r. Needs no round, so that
  /// its loads are on their way while the round's number is.
  template <class X, class P>
  static BATON_FN std::uint32_t stage_unit(X& x, const P& p, std::byte* staging, const token_unit& at) {
    typename X::template lanes<std::int32_t> id;
    typename X::template lanes<float> weight;
    x.each_lane([&](int lane) {
      id[lane] = lane < p.s.top_k ? read_id(x, p.ids(), at.token * p.s.top_k + lane) : -1;
      const int k = at.unit * unit_weights + lane;
      const bool given = lane < unit_weights && k < p.s.top_k && p.topk_weights != nullptr;
      weight[lane] = given ? x.read(p.topk_weights + at.token * p.s.top_k + k) : 1.0f;
    });
    constexpr int values = P::unit.payload * 8 / P::facts.value_bits,
                  steps_of_unit = ceil_div(values, Format::step_values);
    const int first = at.unit * values, end = smaller(p.s.hidden, first + values);
    const typename Format::source from = Format::token(p, at.token);
    typename X::template lanes<typename Format::lane_input> in[steps_of_unit];
    BATON_UNROLL
    for (int i = 0; i < steps_of_unit; ++i)
      Format::load(x, from, first + i * Format::step_values, end, in[i]);
    x.sync_warp();  // the unit before has left the staging
    std::byte* const scales = staging + (P::unit.scales_in_data ? P::unit.payload : unit_data);
    const shared_sink<X> sink{x, staging, scales, at.unit * P::unit.payload, first / Format::scale_values};
    Format::encode(x, in, first, end, p.input_scales, sink);
    x.each_lane([&](int lane) {
      if (lane < unit_weights)
        x.write(reinterpret_cast<float*>(staging + unit_data) + unit_weights + lane, weight[lane]);
    });
    x.sync_warp();
    return ranks_of(x, p, id);
  }

  /// Stores the unit to the ranks that want it and are there.
  template <class X, class P>
  static BATON_FN void send_unit(X& x, const P& p, const std::byte* staging, const member_round& now,
                                 const token_unit& at, std::uint32_t wanted) {
    wanted &= ~now.absent;
    const int nth = at.token * p.window.token_units + at.unit;
    const int bytes = smaller(P::unit.payload, p.payload_bytes() - at.unit * P::unit.payload);
    typename X::template lanes<vec16> lines[unit_accesses];
    BATON_UNROLL
    for (int i = 0; i < unit_accesses; ++i) cut_lines<P>(x, staging, bytes, i, now.epoch, lines[i]);
    Way::send_unit(x, p, now.epoch, {p.s.rank, nth}, wanted, lines);
    if (at.unit == 0) x.elect([&] { x.write(p.rank_sets + at.token, wanted); });
  }

  /// The four lines of an access, of a unit with `bytes` of payload: data in seven places each, scales and weight in the eighth.
  template <class P, class X>
  static BATON_FN void cut_lines(X& x, const std::byte* staging, int bytes, int access, std::uint64_t epoch,
                                 typename X::template lanes<vec16>& v) {
    x.each_lane([&](int lane) {
      const int line = lane / lanes_of_line, place = lane % lanes_of_line;
      if (holds_flag(lane)) {
        const int nth = access * lines_of_access + line;
        const auto* ends = reinterpret_cast<const std::uint32_t*>(staging + unit_data);
        constexpr bool has_word = has_scales && !P::unit.scales_in_data;
        const std::uint32_t scales =
            has_word && nth * (4 * P::unit.payload_of_scale) < bytes ? x.read(ends + nth) : 0;
        v[lane] = with_flag(scales, x.read(ends + unit_weights + nth), line_flag(epoch));
      } else {
        const int at =
            (access * chunks_of_access + line * chunks_of_line + place) * static_cast<int>(sizeof(vec16));
        const bool is_scales = P::unit.scales_in_data && at >= P::unit.payload &&
                               (at - P::unit.payload) * P::unit.payload_of_scale < bytes;
        v[lane] = at < bytes || is_scales ? x.read(reinterpret_cast<const vec16*>(staging + at)) : vec16{};
      }
    });
  }
};

}  // namespace baton::ep::per_rank
