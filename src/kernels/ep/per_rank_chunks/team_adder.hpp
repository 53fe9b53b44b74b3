#pragma once
// What the warps of a team do that add up rows, and what all of a team's warps know of it. The edges that are named here stand in
// team_combine.hpp.
#include "kernels/ep/per_rank_chunks/fp8_part.hpp"
#include "kernels/ep/per_rank_chunks/team_plan.hpp"

namespace baton::ep::per_rank_chunks {

struct team_sites {
  static consteval site stage() { return "combine.stage_free"; }
  static consteval site row() { return "combine.row"; }
  static consteval site slot() { return "combine.slot_free"; }
  static consteval site summed() { return "combine.summed"; }
  static consteval site here() { return "combine.sums_here"; }
};

/// A warp's team, and what of the round is the team's: parts first, first + step, ...
template <class X>
struct team_of {
  team_plan shared;
  const team_roles& roles;
  int nth, role;
  int first, step;

  BATON_FN team_of(X& x, const team_plan& plan, const team_roles& r)
      : shared{plan},
        roles{r},
        nth{x.warp() % r.teams},
        role{x.warp() / r.teams},
        first{nth * x.num_blocks() + x.block()},
        step{r.teams * x.num_blocks()} {}

  BATON_FN std::byte* row(X& x, int stage) const {
    return shared.rows(x) + static_cast<std::uint32_t>(nth * roles.stages + stage) * shared.stage_bytes;
  }
  BATON_FN team_cells& cells_of(X& x) const { return shared.cells_of(x)[nth]; }
};

/// Waits for another warp of the team, which waits in its turn: that wait reports first.
consteval wait_site in_team(site where) {
  return {.where = where, .patience = 2};
}

/// A warp that adds up its share of the columns, 8 a lane, which follow each other, so that their scales do.
template <int Adders, class X, class P>
class team_adder {
  static constexpr int steps = ceil_div(most_team_columns, Adders* sum_step);
  struct sums {
    float at[steps][columns_of_lane];
  };

 public:
  BATON_FN team_adder(X& x, const P& p, const team_of<X>& team)
      : x_{x}, p_{p}, team_{team}, cells_{&team.cells_of(x)}, nth_{team.role - team_roles::others} {}

  BATON_FN void run() {
    clear();
    for (ring_turn stage;; stage.step(team_.roles.stages)) {
      if (!x_.template mbarrier_wait<scope::block>(cells_->landed + stage.index, stage.parity,
                                                   in_team(team_sites::row())))
        return;
      typename X::template lanes<addend_note> note;
      typename X::template lanes<std::uint32_t> what_of;
      x_.each_lane([&](int lane) {
        note[lane] = x_.read(cells_->notes + stage.index);
        what_of[lane] = note[lane].what;
      });
      const std::uint32_t what = x_.broadcast(what_of, 0);
      if ((what & addend_note::keeps) != 0) keep();
      if ((what & (addend_note::has_nothing | addend_note::tells | addend_note::ends)) == 0)
        add(stage.index, what, note);
      x_.each_lane([&](int) { x_.fence_proxy_async(); });
      x_.sync_warp();
      x_.elect([&] { x_.mbarrier_arrive(cells_->left + stage.index, 1); });
      if ((what & addend_note::joins) != 0) join();
      if ((what & addend_note::is_last) != 0) store(x_.broadcast(note, 0));
      if (is_for_slot(what)) {
        x_.sync_warp();
        x_.elect([&] { x_.mbarrier_arrive(cells_->summed + slot_.index, 1); });
        slot_.step(sum_slots);
      }
      if ((what & addend_note::ends) != 0) return;
    }
  }

 private:
  BATON_FN static bool is_for_slot(std::uint32_t what) {
    constexpr std::uint32_t sent = addend_note::is_last | addend_note::is_sent;
    return (what & sent) == sent || (what & (addend_note::tells | addend_note::ends)) != 0;
  }
  BATON_FN void clear() {
    x_.each_lane([&](int lane) { sums_[lane] = {}; });
  }
  /// Among the vec16s of a part; behind them where the warp has none in the step.
  BATON_FN int place_of(int step, int lane) const {
    const int own = steps_of_each();
    return step < own ? (nth_ * own + step) * warp_lanes + lane : most_team_columns / columns_of_lane;
  }
  BATON_FN int steps_of_each() const { return ceil_div(p_.window.sum_columns, Adders * sum_step); }
  BATON_FN int vectors_of(int part) const {
    return smaller(p_.window.sum_columns, p_.s.hidden - part * p_.window.sum_columns) / columns_of_lane;
  }

  /// Of a part as wide as there is room for without a look at what columns there are.
  BATON_FN void add(int stage, std::uint32_t what, const typename X::template lanes<addend_note>& note) {
    const int vectors = vectors_of(part_of(what));
    if ((what & addend_note::is_fp8) != 0) return add_fp8(stage, vectors);
    const auto* row = reinterpret_cast<const vec16*>(team_.row(x_, stage));
    constexpr int all = most_team_columns / columns_of_lane;
    if (vectors == all && steps * Adders * warp_lanes == all)
      add_some(row, note, [](int) { return true; });
    else
      add_some(row, note, [vectors](int place) { return place < vectors; });
  }
  template <class Has>
  BATON_FN void add_some(const vec16* row, const typename X::template lanes<addend_note>& note, Has has) {
    x_.each_lane([&](int lane) {
      BATON_UNROLL
      for (int s = 0; s < steps; ++s) {
        if (!has(place_of(s, lane))) continue;
        const vec16 v = x_.read(row + place_of(s, lane));
        add_weighted(sums_[lane].at[s], note[lane].weight, v.word);
      }
    });
  }

  /// Another rank's sum.
  BATON_FN void add_fp8(int stage, int vectors) {
    const auto* values = reinterpret_cast<const std::uint64_t*>(team_.row(x_, stage));
    const auto* scales = reinterpret_cast<const float*>(values + vectors);
    x_.each_lane([&](int lane) {
      BATON_UNROLL
      for (int s = 0; s < steps; ++s) {
        const int place = place_of(s, lane);
        if (place >= vectors) continue;
        const std::uint64_t eight = x_.read(values + place);
        const float scale = x_.read(scales + place / lanes_of_block);
        add_scaled_e4m3(sums_[lane].at[s], scale, static_cast<std::uint32_t>(eight));
        add_scaled_e4m3(sums_[lane].at[s] + 4, scale, static_cast<std::uint32_t>(eight >> 32));
      }
    });
  }

  /// Own rows' sum, until those of ranks below this one are added up.
  BATON_FN void keep() {
    each_kept([&](float* kept, const float& sum) { x_.write(kept, sum); });
    clear();
  }
  BATON_FN void join() {
    each_kept([&](const float* kept, float& sum) { sum += x_.read(kept); });
  }
  /// f(where it is kept, the sum) of each column of a part.
  template <class F>
  BATON_FN void each_kept(F f) {
    float* const kept = kept_of_team();
    x_.each_lane([&](int lane) {
      BATON_UNROLL
      for (int s = 0; s < steps; ++s) {
        if (place_of(s, lane) >= p_.window.sum_columns / columns_of_lane) continue;
        BATON_UNROLL
        for (int i = 0; i < columns_of_lane; ++i)
          f(kept + place_of(s, lane) * columns_of_lane + i, sums_[lane].at[s][i]);
      }
    });
  }
  BATON_FN float* kept_of_team() const { return team_.shared.kept(x_) + team_.nth * p_.window.sum_columns; }

  BATON_FN void store(const addend_note& of) {
    const int vectors = vectors_of(part_of(of.what)),
              first = part_of(of.what) * p_.window.sum_columns / columns_of_lane;
    if ((of.what & addend_note::is_sent) != 0) {
      std::byte* sum =
          p_.window_of(source_of(of.what)) + p_.window.sum_at(p_.s, p_.s.rank, of.token, team_sums);
      return store_fp8(sum + part_of(of.what) * sum_bytes_of(team_sums, p_.window.sum_columns), vectors);
    }
    x_.each_lane([&](int lane) {
      BATON_UNROLL
      for (int s = 0; s < steps; ++s) {
        float(&v)[columns_of_lane] = sums_[lane].at[s];
        const int place = place_of(s, lane);
        if (place >= vectors) continue;
        BATON_UNROLL
        for (int i = 0; i < columns_of_lane; ++i) v[i] += 0.0f;  // as if added to 0: never -0
        p_.output(x_, of.token, (first + place) * columns_of_lane, v);
      }
    });
    clear();
  }

  /// A part, its scales with one store of the warp.
  BATON_FN void store_fp8(std::byte* part, int vectors) {
    auto* values = reinterpret_cast<std::uint64_t*>(part);
    typename X::template lanes<std::uint32_t> most[steps];
    x_.each_lane([&](int lane) {
      BATON_UNROLL
      for (int s = 0; s < steps; ++s) most[s][lane] = fp8_blocks::largest(sums_[lane].at[s]);
    });
    find_largest(x_, most);
    typename X::template lanes<float> kept{};
    BATON_UNROLL
    for (int s = 0; s < steps; ++s) {
      typename X::template lanes<float> scale{};
      x_.each_lane([&](int lane) {
        const int place = place_of(s, lane);
        if (place < vectors) scale[lane] = write_fp8(x_, values + place, sums_[lane].at[s], most[s][lane]);
      });
      const float low = x_.broadcast(scale, 0), high = x_.broadcast(scale, lanes_of_block);
      x_.each_lane([&](int lane) {
        if (lane == 2 * s) kept[lane] = low;
        if (lane == 2 * s + 1) kept[lane] = high;
      });
    }
    const int own = steps_of_each(), first = nth_ * own * 2;
    x_.each_lane([&](int lane) {
      if (lane < 2 * own && first + lane < vectors / lanes_of_block)
        x_.write(reinterpret_cast<float*>(values + vectors) + first + lane, kept[lane]);
    });
    clear();
  }

  X& x_;
  const P& p_;
  const team_of<X>& team_;
  team_cells* cells_;
  int nth_;
  ring_turn slot_;
  typename X::template lanes<sums> sums_;
};

}  // namespace baton::ep::per_rank_chunks
