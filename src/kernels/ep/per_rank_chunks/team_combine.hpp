#pragma once
// combine, layout per_rank, for many tokens whose sums travel in FP8: what combine.hpp computes, to the bit. Rows come by
// the copy engine, as whole as they are, so that more of them are on their way than registers have room for; and few warps
// publish, since a fence for the system holds up its whole multiprocessor, 0.4 us on H200.
//
//   role     warps of a team   does
//   await    1                 awaits the other ranks' sums of this rank's tokens, part after part; says how many are here
//   ask      1                 finds rows of other ranks' parts and, `ahead` parts later, of this rank's; asks the copy engine
//                              for each, for others' sums and for what shared experts made, into the next stage
//   tell     1                 publishes sums that all adders have stored, `at_once` of them with one fence
//   add      adders            add up what comes, a share of the columns each; store the sum
//
//   await    | own 0 ........ | own 1 ......... | own 2
//   ask      | other 0 | other 1 | own 0 | other 2 | own 1 | other 3 | own 2 ...
//   add        | other 0 | other 1 | own 0 | other 2 | own 1 | other 3 | own 2 ...
//   tell                 | other 0 | other 1         | other 2 ...
//
// Parts are dealt to teams before the round. Combine's halves (combine_async, combine_wait) are combine.hpp's.
//
// R4: a row is here before it is added: the stage's mbarrier has counted its bytes. Its note was written by who asked for it,
//     before it arrived there.
// R5: adders have a stage's row before the next one lands there: each arrives when its lanes have read it. Each lane fences
//     first: on a GPU an arrival may overtake the lane's own loads (docs/decisions/0020).
// R6: a slot's note is read before that of another sum is written there: free_slot.
// S1: adders' stores happen before their arrivals for the slot, these before the word is published.
// S2: others' sums are here (S1) before the copy engine is asked for them: who awaits them says so with release, who asks
//     acquires and fences.
// Start:    all stages and slots free, mbarriers in their first phase, nothing here.
// Progress: adders wait for rows only, who tells waits for adders only. Who asks waits for others' sums of this rank's part of a
//           turn when it has asked for those of all other ranks' parts of that turn and before, and had them told of (tell_of).
//           So of all parts that are waited for, the sum of the lowest one is on its way.
#include "exec/kernel.hpp"
#include "kernels/ep/per_rank/round_start.hpp"
#include "kernels/ep/per_rank_chunks/team_adder.hpp"
#include "kernels/ep/per_rank_chunks/token_parts.hpp"

namespace baton::ep::per_rank_chunks {

/// The warp that finds rows and asks for them.
template <class X, class P>
class team_asker {
  static constexpr std::uint32_t of_sum = addend_note::is_fp8;  // of what comes from another rank

 public:
  BATON_FN team_asker(X& x, const P& p, const team_of<X>& team)
      : x_{x}, p_{p}, team_{team}, cells_{&team.cells_of(x)} {}

  BATON_FN void run() {
    if (!read_counts(x_, p_, tokens_)) return;
    int most = p_.num_tokens;
    for (int i = 1; i < p_.s.num_ranks; ++i) most = larger(most, x_.broadcast(tokens_, turned(p_, i)));
    const int parts = most * p_.window.sum_parts;
    turns_ = team_.first < parts ? ceil_div(parts - team_.first, team_.step) : 0;
    x_.each_lane([&](int) { x_.fence_proxy_async_global(); });
    bool goes_on = true;
    known_part<X> now = look_up(x_, p_, next_part());
    while (goes_on && now.at.token >= 0) {
      const known_part<X> next = look_up(x_, p_, next_part());
      goes_on = now.at.source == p_.s.rank ? ask_own(now) : ask_others(now);
      now = next;
    }
    if (!goes_on || !tell_of(addend_note::ends, slot_note::ends)) drain();
  }

 private:
  /// What is asked for beside where it lies.
  struct addend {
    float weight = 0.0f;
    std::uint32_t what = 0;
  };

  /// In each turn parts of all other ranks, then, `ahead` turns behind, one of this rank.
  BATON_FN sum_part next_part() {
    for (; turn_ < turns_ + team_.roles.ahead; ++turn_, of_turn_ = 1) {
      while (of_turn_ < p_.s.num_ranks) {
        const int source = turned(p_, of_turn_++);
        const sum_part at = part_of(source, turn_);
        if (turn_ < turns_ && at.token < x_.broadcast(tokens_, source)) return at;
      }
      if (of_turn_++ > p_.s.num_ranks || turn_ < team_.roles.ahead) continue;
      const sum_part at = part_of(p_.s.rank, turn_ - team_.roles.ahead);
      if (at.token < p_.num_tokens) return at;
    }
    return {0, -1, 0};
  }
  BATON_FN sum_part part_of(int source, int turn) const {
    const int nth = team_.first + turn * team_.step, token = nth / p_.window.sum_parts;
    return {source, token, nth - token * p_.window.sum_parts};
  }
  BATON_FN int nth_of(const sum_part& at) const { return at.token * p_.window.sum_parts + at.part; }

  /// The sum of a part of another rank's token. False: gave up.
  BATON_FN bool ask_others(const known_part<X>& part) {
    const std::uint32_t choices = x_.broadcast(part.choices, 0);
    if (choices == 0) return true;
    if (!are_rows_here(x_, p_, part, choices)) return false;
    if (untold_++ == 0) oldest_untold_ = nth_of(part.at);
    const bool now = untold_ >= team_.roles.at_once;
    if (now) untold_ = 0;
    if (!take_slot({word_of_sum(p_, part.at), now ? slot_note::tells_now : 0u})) return false;
    return ask_rows(part, choices, addend_note::is_sent, addend_note::is_last);
  }

  /// This rank's rows, and others' sums: in the order of ranks, or this rank first where that is the same bits; and the row of
  /// shared experts. False: gave up.
  BATON_FN bool ask_own(const known_part<X>& part) {
    const std::uint32_t own = 1u << p_.s.rank;
    const std::uint32_t ranks = x_.broadcast(part.ranks, 0), below = ranks & (own - 1);
    const std::uint32_t choices = (ranks & own) != 0 ? x_.broadcast(part.choices, 0) : 0;
    std::uint32_t others = ranks & ~own;
    ++own_parts_;
    if (!are_rows_here(x_, p_, part, choices)) return false;
    const std::uint32_t ends = p_.shared.present() ? 0u : addend_note::is_last;  // the sum of chosen experts
    if ((choices | others) == 0 && ends != 0)
      return ask({0.0f, addend_note::is_last | addend_note::has_nothing}, part.at, nullptr);
    if (!ask_rows(part, choices, 0, others == 0 ? ends : 0u)) return false;
    if (others != 0 && !await_here(part.at)) return false;
    const bool is_apart = choices != 0 && (below & (below - 1)) != 0;
    std::uint32_t what = of_sum | (is_apart ? addend_note::keeps : 0u);
    while (others != 0) {
      const int rank = lowest_bit(others);
      others &= others - 1;
      if (is_apart && (others & below) == 0 && (below >> rank & 1) != 0) what |= addend_note::joins;
      if (others == 0) what |= ends;
      const std::byte* sums =
          p_.window_of(p_.s.rank) + p_.window.sum_at(p_.s, rank, part.at.token, team_sums);
      if (!ask({1.0f, what}, part.at, sums)) return false;
      what = of_sum;
    }
    if (ends != 0) return true;
    const vec16* shared = p_.shared.of(part.at.token, p_.s.hidden);
    return ask({shared_rows::weight, addend_note::is_last}, part.at,
               reinterpret_cast<const std::byte*>(shared));
  }

  BATON_FN bool ask_rows(const known_part<X>& part, std::uint32_t choices, std::uint32_t what,
                         std::uint32_t what_of_last) {
    const auto* rows = reinterpret_cast<const std::byte*>(p_.expert_output);
    while (choices != 0) {
      const entry e = x_.broadcast(part.entries, lowest_bit(choices));
      choices &= choices - 1;
      if (choices == 0) what |= what_of_last;
      if (!ask({e.weight, what}, part.at, rows + std::int64_t{e.row} * row_bytes())) return false;
    }
    return true;
  }

  /// Until all other ranks' sums of this part are here. Of what is waited for here, nothing is held back that who is waited for
  /// may wait for (Progress). False: gave up.
  BATON_FN bool await_here(const sum_part& at) {
    if (untold_ > 0 && oldest_untold_ <= nth_of(at) && !tell_of(addend_note::tells, slot_note::tells_now))
      return false;
    typename X::template lanes<std::uint32_t*> count{};
    typename X::template lanes<std::uint32_t> seen;
    x_.elect([&] { count[0] = &cells_->here; });
    const std::uint32_t wanted = own_parts_;
    wait_site where = in_team(team_sites::here());
    where.expected = wanted;
    if (!x_.template wait<order::acquire, scope::block>(
            count, [wanted](int, std::uint32_t here) { return here >= wanted; }, where, seen))
      return false;
    x_.sync_warp();
    x_.each_lane([&](int) { x_.fence_proxy_async_global(); });
    return true;
  }

  /// Behind all that was sent. False: gave up.
  BATON_FN bool tell_of(std::uint32_t adders_do, std::uint32_t slot_is) {
    untold_ = 0;
    return take_slot({nullptr, slot_is}) && ask({0.0f, adders_do}, {}, nullptr);
  }

  /// For the next sum that is sent. False: gave up.
  BATON_FN bool take_slot(const slot_note& note) {
    if (!x_.template mbarrier_wait<scope::block>(cells_->free_slot + slot_.index, !slot_.parity,
                                                 in_team(team_sites::slot())))
      return false;
    x_.elect([&] { x_.write(cells_->slots + slot_.index, note); });
    slot_.step(sum_slots);
    return true;
  }

  /// A part of the row at `row`, or nothing, into the next stage. False: gave up.
  BATON_FN bool ask(const addend& what, const sum_part& of, const std::byte* row) {
    const int stage = stage_.index;
    if (!x_.template mbarrier_wait<scope::block>(cells_->left + stage, !stage_.parity,
                                                 in_team(team_sites::stage())))
      return false;
    x_.elect([&] {
      const auto place = static_cast<std::uint32_t>(of.source) << 8 | static_cast<std::uint32_t>(of.part)
                                                                          << 16;
      x_.write(cells_->notes + stage, addend_note{what.weight, what.what | place, of.token, 0});
      if (row == nullptr) return x_.mbarrier_arrive(cells_->landed + stage, 1);
      int begin = of.part * p_.window.sum_columns * static_cast<int>(sizeof(bfloat16));
      int bytes = smaller(p_.window.sum_columns * static_cast<int>(sizeof(bfloat16)), row_bytes() - begin);
      if ((what.what & of_sum) != 0) {
        begin = of.part * sum_bytes_of(team_sums, p_.window.sum_columns);
        bytes = sum_bytes_of(team_sums, bytes / static_cast<int>(sizeof(bfloat16)));
      }
      x_.mbarrier_arrive_expect(cells_->landed + stage, bytes);
      x_.bulk_load(team_.row(x_, stage), row + begin, bytes, cells_->landed + stage);
    });
    stage_.step(team_.roles.stages);
    return true;
  }
  BATON_FN int row_bytes() const { return p_.s.hidden * static_cast<int>(sizeof(bfloat16)); }

  /// Before the warp returns early: nothing may land in memory that is no longer the block's.
  BATON_FN void drain() {
    for (int i = 0; i < team_.roles.stages; ++i)
      x_.template mbarrier_wait<scope::block>(
          cells_->landed + i, i < stage_.index ? stage_.parity : !stage_.parity, in_team(team_sites::row()));
  }

  X& x_;
  const P& p_;
  const team_of<X>& team_;
  team_cells* cells_;
  typename X::template lanes<int> tokens_{};  // lane r: of rank r
  int turns_ = 0, turn_ = 0, of_turn_ = 1;
  ring_turn stage_, slot_;
  int untold_ = 0, oldest_untold_ = 0;  // sums that were asked for and will not be told of by themselves
  std::uint32_t own_parts_ = 0;
};

template <class Output, int Adders = team_adders>
struct team_combine_kernel {
  using params = combine_params<Output>;
  static constexpr kernel_bounds bounds{.max_threads = max_team_warps * warp_lanes, .blocks_per_sm = 1};

  template <line_exec_context X>
  static BATON_FN void run(X& x, const params& p) {
    x.launch_dependents();
    const team_of<X> team{x, team_plan{p.s, p.window, p.teams}, p.teams};
    prepare(x, team.shared, p.teams, Adders);
    x.sync_block();
    x.await_dependencies();
    const auto start = per_rank::begin_round(x, &p.epochs->dispatched);
    const per_rank::round_start now = x.broadcast(start, 0);
    if (now.aborted()) return;
    clear_taken_by_dispatch(x, p);
    if (team.role == 0)
      await(x, p, team, now.epoch());
    else if (team.role == 1)
      team_asker<X, params>{x, p, team}.run();
    else if (team.role == 2)
      tell(x, team, now.epoch());
    else
      team_adder<Adders, X, params>{x, p, team}.run();
  }

 private:
  template <class X>
  static BATON_FN void await(X& x, const params& p, const team_of<X>& team, std::uint64_t epoch) {
    std::uint32_t here = 0;
    for (int nth = team.first; nth < p.num_tokens * p.window.sum_parts; nth += team.step) {
      const int token = nth / p.window.sum_parts;
      typename X::template lanes<std::uint32_t> ranks;
      x.each_lane([&](int lane) { ranks[lane] = ranks_of(x, p, token); });
      const std::uint32_t others = x.broadcast(ranks, 0) & ~(1u << p.s.rank);
      if (!await_sums(x, p, epoch, {p.s.rank, token, nth - token * p.window.sum_parts}, others)) return;
      ++here;
      x.elect([&] { x.template store<order::release, scope::block>(&team.cells_of(x).here, here); });
    }
    if (x.block() == 0 && x.warp() == 0) x.elect([&] { x.write(&p.epochs->combined, epoch); });
  }

  template <class X>
  static BATON_FN void tell(X& x, const team_of<X>& team, std::uint64_t epoch) {
    typename X::template lanes<std::uint64_t*> words{};
    int held = 0;
    team_cells& cells = team.cells_of(x);
    for (ring_turn slot;; slot.step(sum_slots)) {
      if (!x.template mbarrier_wait<scope::block>(cells.summed + slot.index, slot.parity,
                                                  in_team(team_sites::summed())))
        return;
      typename X::template lanes<slot_note> of_lane;
      x.each_lane([&](int lane) { of_lane[lane] = x.read(cells.slots + slot.index); });
      const slot_note note = x.broadcast(of_lane, 0);
      x.sync_warp();
      x.elect([&] { x.mbarrier_arrive(cells.free_slot + slot.index, 1); });
      x.each_lane([&](int lane) {
        if (lane == held && note.word != nullptr) words[lane] = note.word;
      });
      if (note.word != nullptr) ++held;
      if (note.what == 0) continue;
      x.each_lane([&](int lane) {
        if (words[lane] != nullptr)
          publish<epoch_arrival>(x, words[lane], static_cast<std::uint32_t>(epoch), 1);
        words[lane] = nullptr;
      });
      held = 0;
      if (note.what == slot_note::ends) return;
    }
  }
};

}  // namespace baton::ep::per_rank_chunks
