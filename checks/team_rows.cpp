// protocol/team_rows.hpp: words stand in the block that shows them, and all others read them there.
#include "protocol/team_rows.hpp"

#include "checks/team_rows_runs.hpp"

namespace baton::checks {
namespace {

using check::verdict;

struct showing {
  template <class X>
  using rows = team_rows<X>;
  static constexpr const char *there = "rows staged", *word = "row";
  static constexpr int lane = 1;  // another one than tells

  static int words(const rows_setting&) { return rows_setting::most_groups; }
  static bool takes(const rows_setting&, int, rows_flaw) { return true; }
  static bool releases(const rows_setting&, int, rows_flaw) { return true; }
  static bool waits_at_end(rows_flaw flaw) { return flaw != rows_flaw::unended && flaw != rows_flaw::leaves; }
  template <class X>
  static void expect(const team_rows<X>&, const rows_setting&) {}
  template <class X>
  static void write(X& x, const team_rows<X>&, const rows_setting&, std::uint32_t* words, int group,
                    std::uint32_t word) {
    x.each_lane([&](int of) {
      if (of == lane) x.write(words + group, word);
    });
  }
  template <class X>
  static void tell(const team_rows<X>& of, const rows_setting&) {
    of.tell();
  }
  template <class X>
  static std::uint32_t read(X& x, const rows_setting&, std::uint32_t* words, int block, int group) {
    return x.read(x.in_block(words + group, block));
  }
};

std::vector<mutant> showing_mutants(const rows_setting& s) {
  using enum change;
  const auto wrong = rows_wrong<showing>(s);
  constexpr verbs wait = verbs::mbarrier_wait, arrive = verbs::mbarrier_arrive;
  const std::vector<verdict> race{verdict::data_race}, stops{verdict::deadlock},
      overwritten{verdict::data_race, verdict::mbarrier_misuse},
      any{verdict::deadlock, verdict::data_race, verdict::mbarrier_misuse, verdict::garbage_read};
  return rows_mutants<showing>(
      s, any,
      {wrong("a row comes after it was told of", "T1", race,
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
             {.flaw = rows_flaw::unacquired}),
       wrong("arrivals at block scope", "T1", race, {{.what = arrive, .how = narrow}}),
       wrong("nobody waits at the end until rows have been read", "End", {verdict::loose_end},
             {.flaw = rows_flaw::unended}),
       wrong("nobody waits at the end, nor meets", "End", {verdict::loose_end, verdict::data_race},
             {.flaw = rows_flaw::leaves})});
}

}  // namespace

protocol_check team_rows_check() {
  return {.name = "team_rows",
          .title = "Rows that every block of a cluster shows to all of them",
          .headers = {"src/protocol/team_rows.hpp"},
          .explorations = {rows_hold<showing>({2, 1, 1, 1}), rows_hold<showing>({1, 1, 2, 4}),
                           rows_hold<showing>({2, 1, 1, 5}), rows_hold<showing>({2, 1, 2, 3}),
                           rows_hold<showing>({2, 2, 1, 2}), rows_hold<showing>({3, 1, 1, 3}),
                           rows_hold<showing>({4, 1, 1, 3}), rows_hold<showing>({8, 1, 2, 2}),
                           unmet_rows_hold<showing>({2, 1, 2, 3}), late_rows_hold<showing>({2, 1, 1, 2})},
          .mutants = showing_mutants({2, 1, 2, 3})};
}

}  // namespace baton::checks
