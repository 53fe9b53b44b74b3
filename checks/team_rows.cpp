// Warps of every block of a cluster show words to all of them, turn after turn, as attention of few rows does with rows: a
// turn's words are of one warp of each group of a block, another one each turn, and every warp reads those of all blocks. Each
// word tells whose it is and of which turn.
#include "protocol/team_rows.hpp"

#include "checks/all.hpp"
#include "checks/planted_context.hpp"

namespace baton::checks {
namespace {

using check::verdict;

/// Another one than tells.
constexpr int showing_lane = 1;
constexpr site rows_taken = "rows.taken", rows_there = "rows.there";

/// What the order of the verbs has wrong, where that is not a verb.
enum class showing_flaw : std::uint8_t {
  none,
  shown_unacquired,  // words are written before their place has been acquired
  taken_unread,      // words are released before they have been read
  unended,           // nobody waits at the end until rows have been read
  unmet,             // nobody meets at the end
  leaves,            // neither
};
struct showing_bug {
  planted_bug bug = {};
  showing_flaw flaw = showing_flaw::none;
};

struct showing {
  int blocks, groups, group_warps, turns;
  static constexpr int most_groups = 2;
  static constexpr std::size_t words_at = 2 * sizeof(mbarrier);
  static constexpr std::size_t shared_bytes = words_at + most_groups * sizeof(std::uint32_t);

  int warps() const { return groups * group_warps; }
  static std::uint32_t word(int turn, int block, int group) {
    return static_cast<std::uint32_t>(1 + (turn * 16 + block) * most_groups + group);
  }
};

template <class X>
class showing_warp {
 public:
  showing_warp(X& x, check::program& p, const showing& s, showing_flaw flaw)
      : x_{x},
        program_{p},
        s_{s},
        flaw_{flaw},
        staged_{reinterpret_cast<mbarrier*>(x.shared())},
        words_{reinterpret_cast<std::uint32_t*>(x.shared() + showing::words_at)} {}

  void run() {
    if (x_.warp() == 0) {
      team_rows<X>::prepare(x_, staged_, staged_ + 1, s_.groups, s_.warps());
      x_.fence_mbarrier_init();
    }
    x_.sync_cluster();
    const team_rows<X> rows{x_, staged_, staged_ + 1};
    for (int turn = 0; turn < s_.turns && going_; ++turn) {
      if (x_.warp() % s_.group_warps == turn % s_.group_warps) show(rows, turn);
      if (going_) take(rows, turn);
    }
    if (going_ && flaw_ != showing_flaw::unended && flaw_ != showing_flaw::leaves)
      rows.acquire(s_.turns, wait_at(rows_taken, s_.turns));
    if (!going_) x_.report_late({.where = late_});
    if (flaw_ != showing_flaw::unmet && flaw_ != showing_flaw::leaves) x_.meet_cluster();
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
  void write(int turn) {
    const int group = x_.warp() / s_.group_warps;
    x_.each_lane([&](int lane) {
      if (lane == showing_lane) x_.write(words_ + group, showing::word(turn, x_.cluster_block(), group));
    });
  }
  void show(const team_rows<X>& rows, int turn) {
    if (flaw_ == showing_flaw::shown_unacquired) write(turn);
    rows.acquire(turn, wait_at(rows_taken, turn));
    if (!going_) return;
    if (flaw_ != showing_flaw::shown_unacquired) write(turn);
    rows.tell();
  }
  void take(const team_rows<X>& rows, int turn) {
    rows.await(turn, wait_at(rows_there, turn));
    if (!going_) return;
    if (flaw_ == showing_flaw::taken_unread) rows.release();
    for (int block = 0; block < s_.blocks; ++block)
      for (int group = 0; group < s_.groups; ++group)
        program_.require(x_.from_one([&] { return x_.read(x_.in_block(words_ + group, block)); }) ==
                             showing::word(turn, block, group),
                         "every reader has the words of all blocks, of its turn");
    if (flaw_ != showing_flaw::taken_unread) rows.release();
  }

  X& x_;
  check::program& program_;
  const showing& s_;
  showing_flaw flaw_;
  mbarrier* staged_;
  std::uint32_t* words_;
  bool going_ = true;
  site late_ = {};
};

check::result explore_showing(const showing& s, const showing_bug& bug, const check::bounds& limits) {
  return check::explore(limits, [&](check::program& p) {
    p.shared_memory(showing::shared_bytes);
    p.name_shared(0, sizeof(mbarrier), 1, "rows staged");
    p.name_shared(sizeof(mbarrier), sizeof(mbarrier), 1, "rows taken");
    p.name_shared(showing::words_at, sizeof(std::uint32_t), showing::most_groups, "row");
    p.clusters_of(s.blocks);
    for (int block = 0; block < s.blocks; ++block) {
      for (int warp = 0; warp < s.warps(); ++warp) {
        p.spawn(0, block, warp, [=, &p](check::context& base) {
          planted<check::context> x{base, bug.bug, p.names()};
          showing_warp<planted<check::context>>{x, p, s, bug.flaw}.run();
        });
      }
    }
  });
}

std::string showing_name(const showing& s) {
  return std::to_string(s.blocks) + (s.blocks == 1 ? " block" : " blocks") + " of " +
         std::to_string(s.groups) + " times " + std::to_string(s.group_warps) + " warps, " +
         std::to_string(s.turns) + " turns";
}
exploration showing_holds(const showing& s) {
  return {showing_name(s), [s](const check::bounds& limits) { return explore_showing(s, {}, limits); }};
}
/// A block whose rows have been read may end.
exploration unmet_showing_holds(const showing& s) {
  return {showing_name(s) + ", no meeting at the end", [s](const check::bounds& limits) {
            return explore_showing(s, {.flaw = showing_flaw::unmet}, limits);
          }};
}
/// Any of the waits may give up.
exploration late_showing_holds(const showing& s) {
  return {showing_name(s) + ", waits give up", [s](const check::bounds& limits) {
            check::bounds late = limits;
            late.may_time_out = [](const wait_site&) { return true; };
            return explore_showing(s, {}, late);
          }};
}

std::vector<mutant> showing_mutants(const showing& s) {
  using enum change;
  const auto wrong = [s](const char* name, const char* breaks, std::vector<verdict> as,
                         const showing_bug& bug) {
    return mutant{name, breaks, std::move(as),
                  [s, bug](const check::bounds& limits) { return explore_showing(s, bug, limits); }};
  };
  constexpr verbs wait = verbs::mbarrier_wait, arrive = verbs::mbarrier_arrive;
  const std::vector<verdict> early{verdict::data_race, verdict::garbage_read}, race{verdict::data_race},
      stops{verdict::deadlock}, overwritten{verdict::data_race, verdict::mbarrier_misuse},
      wrong_scope{verdict::scope_race},
      any{verdict::deadlock, verdict::data_race, verdict::mbarrier_misuse, verdict::garbage_read};
  return {wrong("rows are read before they are there", "T1", early,
                {{.what = wait, .how = lost, .where = rows_there}}),
          wrong("rows of the other parity", "T1", any,
                {{.what = wait, .how = shifted, .where = rows_there, .by = 1}}),
          wrong("readers wait at block scope", "T1", wrong_scope,
                {{.what = wait, .how = narrow, .where = rows_there}}),
          wrong("a row comes after it was told of", "T1", race,
                {{.what = verbs::write, .how = late, .cell = "row"}}),
          wrong("rows are told of to the own block alone", "Progress", any,
                {{.what = arrive, .how = own, .cell = "rows staged"}}),
          wrong("the last lane's block is not told", "Progress", stops,
                {{.what = arrive, .how = lost, .cell = "rows staged", .time = 2}}),
          wrong("a phase takes a writer more", "Progress", stops,
                {{.what = verbs::mbarrier_init, .how = shifted, .cell = "rows staged", .by = 1}}),
          wrong("a phase takes a writer less", "T1", any,
                {{.what = verbs::mbarrier_init, .how = shifted, .cell = "rows staged", .by = -1}}),
          wrong("rows are written over without a wait", "T2", overwritten,
                {{.what = wait, .how = lost, .where = rows_taken}}),
          wrong("writers wait at block scope", "T2", overwritten,
                {{.what = wait, .how = narrow, .where = rows_taken}}),
          wrong("the first turn's writers wait", "Start", stops,
                {{.what = wait, .how = shifted, .where = rows_taken, .by = 1}}),
          wrong("rows are written before their place is acquired", "T2", overwritten,
                {.flaw = showing_flaw::shown_unacquired}),
          wrong("rows are released before they are read", "T2", race, {.flaw = showing_flaw::taken_unread}),
          wrong("a row is read once more after its release", "T2", race,
                {{.what = verbs::read, .how = late, .cell = "row"}}),
          wrong("a release is lost", "Progress", stops,
                {{.what = arrive, .how = lost, .cell = "rows taken", .time = 1}}),
          wrong("rows are released to the own block alone", "T2", any,
                {{.what = arrive, .how = own, .cell = "rows taken"}}),
          wrong("a phase takes a reader less", "T2", any,
                {{.what = verbs::mbarrier_init, .how = shifted, .cell = "rows taken", .by = -1}}),
          wrong("arrivals at block scope", "T1", race, {{.what = arrive, .how = narrow}}),
          wrong("nobody waits at the end until rows have been read", "End", {verdict::loose_end},
                {.flaw = showing_flaw::unended}),
          wrong("nobody waits at the end, nor meets", "End", {verdict::loose_end, verdict::data_race},
                {.flaw = showing_flaw::leaves})};
}

}  // namespace

protocol_check team_rows_check() {
  return {
      .name = "team_rows",
      .title = "Rows that every block of a cluster shows to all of them",
      .headers = {"src/protocol/team_rows.hpp"},
      .explorations = {showing_holds({2, 1, 1, 1}), showing_holds({1, 1, 2, 4}), showing_holds({2, 1, 1, 5}),
                       showing_holds({2, 1, 2, 3}), showing_holds({2, 2, 1, 2}), showing_holds({3, 1, 1, 3}),
                       showing_holds({4, 1, 1, 3}), showing_holds({8, 1, 2, 2}),
                       unmet_showing_holds({2, 1, 2, 3}), late_showing_holds({2, 1, 1, 2})},
      .mutants = showing_mutants({2, 1, 2, 3})};
}

}  // namespace baton::checks
