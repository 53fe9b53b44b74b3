#pragma once
// Warps of every block of a cluster hand words to all of them, turn after turn, as attention of few rows does with rows: a
// turn's words are of one warp of each group of a block, another one each turn, and every warp reads those of all blocks. Each
// word tells whose it is and of which turn. `Way` says how words come from one block to the other: team_rows.cpp, given_rows.cpp.
#include <string>

#include "checks/all.hpp"
#include "checks/planted_context.hpp"

namespace baton::checks {

constexpr site rows_taken = "rows.taken", rows_there = "rows.there";

/// What the order of the verbs has wrong, where that is not a verb.
enum class rows_flaw : std::uint8_t {
  none,
  unacquired,    // words are written before their place has been acquired
  taken_unread,  // words are released before they have been read
  all_released,  // the last turn's words are released, too, and nobody meets at the end
  unended,       // nobody waits at the end until rows have been read
  unmet,         // nobody meets at the end
  leaves,        // nor waits, nor takes what would come last
};
struct rows_bug {
  planted_bug bug = {};
  rows_flaw flaw = rows_flaw::none;
};

struct rows_setting {
  int blocks, groups, group_warps, turns;
  static constexpr int most_groups = 2;
  static constexpr std::size_t words_at = 2 * sizeof(mbarrier);

  int warps() const { return groups * group_warps; }
  bool is_last(int turn) const { return turn + 1 == turns; }
  static std::uint32_t word(int turn, int block, int group) {
    return static_cast<std::uint32_t>(1 + (turn * 16 + block) * most_groups + group);
  }
};

template <class Way, class X>
class rows_warp {
 public:
  using rows = typename Way::template rows<X>;

  rows_warp(X& x, check::program& p, const rows_setting& s, rows_flaw flaw)
      : x_{x},
        program_{p},
        s_{s},
        flaw_{flaw},
        there_{reinterpret_cast<mbarrier*>(x.shared())},
        words_{reinterpret_cast<std::uint32_t*>(x.shared() + rows_setting::words_at)} {}

  void run() {
    if (x_.warp() == 0) {
      rows::prepare(x_, there_, there_ + 1, s_.groups, s_.warps());
      x_.fence_mbarrier_init();
    }
    x_.sync_cluster();
    const rows of{x_, there_, there_ + 1};
    for (int turn = 0; turn < s_.turns && going_; ++turn) {
      if (x_.warp() % s_.group_warps == turn % s_.group_warps) hand_over(of, turn);
      if (going_ && Way::takes(s_, turn, flaw_)) take(of, turn);
    }
    if (going_ && Way::waits_at_end(flaw_)) of.acquire(s_.turns, wait_at(rows_taken, s_.turns));
    if (!going_) x_.report_late({.where = late_});
    if (flaw_ != rows_flaw::unmet && flaw_ != rows_flaw::leaves && flaw_ != rows_flaw::all_released)
      x_.meet_cluster();
  }

 private:
  auto wait_at(site where, int turn) {
    return [this, where, turn](mbarrier* b, parity p) {
      if (x_.template mbarrier_wait_quietly<scope::cluster>(
              b, p, {.where = where, .epoch = static_cast<std::uint32_t>(turn)}))
        return;
      going_ = false;
      late_ = where;
    };
  }
  void hand_over(const rows& of, int turn) {
    const int group = x_.warp() / s_.group_warps;
    const std::uint32_t word = rows_setting::word(turn, x_.cluster_block(), group);
    if (flaw_ == rows_flaw::unacquired) Way::write(x_, of, s_, words_, group, word);
    of.acquire(turn, wait_at(rows_taken, turn));
    if (!going_) return;
    if (group == 0) Way::expect(of, s_);
    if (flaw_ != rows_flaw::unacquired) Way::write(x_, of, s_, words_, group, word);
    Way::tell(of, s_);
  }
  void take(const rows& of, int turn) {
    of.await(turn, wait_at(rows_there, turn));
    if (!going_) return;
    const bool releases = Way::releases(s_, turn, flaw_);
    if (releases && flaw_ == rows_flaw::taken_unread) of.release();
    for (int block = 0; block < s_.blocks; ++block)
      for (int group = 0; group < s_.groups; ++group)
        program_.require(x_.from_one([&] { return Way::read(x_, s_, words_, block, group); }) ==
                             rows_setting::word(turn, block, group),
                         "every reader has the words of all blocks, of its turn");
    if (releases && flaw_ != rows_flaw::taken_unread) of.release();
  }

  X& x_;
  check::program& program_;
  const rows_setting& s_;
  rows_flaw flaw_;
  mbarrier* there_;
  std::uint32_t* words_;
  bool going_ = true;
  site late_ = {};
};

template <class Way>
check::result explore_rows(const rows_setting& s, const rows_bug& bug, const check::bounds& limits) {
  return check::explore(limits, [&](check::program& p) {
    const auto words = static_cast<std::size_t>(Way::words(s));
    p.shared_memory(rows_setting::words_at + words * sizeof(std::uint32_t));
    p.name_shared(0, sizeof(mbarrier), 1, Way::there);
    p.name_shared(sizeof(mbarrier), sizeof(mbarrier), 1, "rows taken");
    p.name_shared(rows_setting::words_at, sizeof(std::uint32_t), words, Way::word);
    p.clusters_of(s.blocks);
    for (int block = 0; block < s.blocks; ++block) {
      for (int warp = 0; warp < s.warps(); ++warp) {
        p.spawn(0, block, warp, [=, &p](check::context& base) {
          planted<check::context> x{base, bug.bug, p.names()};
          rows_warp<Way, planted<check::context>>{x, p, s, bug.flaw}.run();
        });
      }
    }
  });
}

inline std::string rows_name(const rows_setting& s) {
  return std::to_string(s.blocks) + (s.blocks == 1 ? " block" : " blocks") + " of " +
         std::to_string(s.groups) + " times " + std::to_string(s.group_warps) + " warps, " +
         std::to_string(s.turns) + " turns";
}
template <class Way>
exploration rows_hold(const rows_setting& s) {
  return {rows_name(s), [s](const check::bounds& limits) { return explore_rows<Way>(s, {}, limits); }};
}
/// A block that needs no more of others, nor they of it, may end.
template <class Way>
exploration unmet_rows_hold(const rows_setting& s) {
  return {rows_name(s) + ", no meeting at the end", [s](const check::bounds& limits) {
            return explore_rows<Way>(s, {.flaw = rows_flaw::unmet}, limits);
          }};
}
/// Any of the waits may give up.
template <class Way>
exploration late_rows_hold(const rows_setting& s) {
  return {rows_name(s) + ", waits give up", [s](const check::bounds& limits) {
            check::bounds late = limits;
            late.may_time_out = [](const wait_site&) { return true; };
            return explore_rows<Way>(s, {}, late);
          }};
}

/// Says that a planted bug breaks something, and as what it is noticed.
template <class Way>
auto rows_wrong(const rows_setting& s) {
  return [s](const char* name, const char* breaks, std::vector<check::verdict> as, const rows_bug& bug) {
    return mutant{name, breaks, std::move(as),
                  [s, bug](const check::bounds& limits) { return explore_rows<Way>(s, bug, limits); }};
  };
}

/// What is wrong whichever way words come, and then what is of one way; `any`: what a broken order may be noticed as.
template <class Way>
std::vector<mutant> rows_mutants(const rows_setting& s, const std::vector<check::verdict>& any,
                                 const std::vector<mutant>& of_one) {
  using enum change;
  using check::verdict;
  const auto wrong = rows_wrong<Way>(s);
  constexpr verbs wait = verbs::mbarrier_wait, arrive = verbs::mbarrier_arrive;
  const std::vector<verdict> race{verdict::data_race}, stops{verdict::deadlock};
  std::vector<mutant> all{
      wrong("rows are read before they are there", "T1", {verdict::data_race, verdict::garbage_read},
            {{.what = wait, .how = lost, .where = rows_there}}),
      wrong("rows of the other parity", "T1", any,
            {{.what = wait, .how = shifted, .where = rows_there, .by = 1}}),
      wrong("readers wait at block scope", "T1", {verdict::scope_race},
            {{.what = wait, .how = narrow, .where = rows_there}}),
      wrong("rows are released before they are read", "T2", race, {.flaw = rows_flaw::taken_unread}),
      wrong("a row is read once more after its release", "T2", race,
            {{.what = verbs::read, .how = late, .cell = Way::word}}),
      wrong("a release is lost", "Progress", stops,
            {{.what = arrive, .how = lost, .cell = "rows taken", .time = 1}}),
      wrong("rows are released to the own block alone", "T2", any,
            {{.what = arrive, .how = own, .cell = "rows taken"}}),
      wrong("a phase takes a reader less", "T2", any,
            {{.what = verbs::mbarrier_init, .how = shifted, .cell = "rows taken", .by = -1}})};
  all.insert(all.end(), of_one.begin(), of_one.end());
  return all;
}

}  // namespace baton::checks
