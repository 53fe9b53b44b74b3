// protocol/given_rows.hpp: words are stored into the blocks of those who read them.
#include "protocol/given_rows.hpp"

#include "checks/team_rows_runs.hpp"

namespace baton::checks {
namespace {

using check::verdict;

struct giving {
  template <class X>
  using rows = given_rows<X>;
  static constexpr const char *there = "rows filled", *word = "row value";
  static constexpr int lane = 1;  // another one than expects

  static int words(const rows_setting& s) { return s.blocks * s.groups; }
  static bool takes(const rows_setting& s, int turn, rows_flaw flaw) {
    return flaw != rows_flaw::leaves || !s.is_last(turn);
  }
  static bool releases(const rows_setting& s, int turn, rows_flaw flaw) {
    return flaw == rows_flaw::all_released || !s.is_last(turn);
  }
  static bool waits_at_end(rows_flaw) { return false; }
  template <class X>
  static void expect(const given_rows<X>& of, const rows_setting& s) {
    if (s.blocks > 1) of.expect(words(s) * static_cast<int>(sizeof(std::uint32_t)));
  }
  template <class X>
  static void write(X& x, const given_rows<X>& of, const rows_setting& s, std::uint32_t* words, int group,
                    std::uint32_t word) {
    std::uint32_t* const to = words + x.cluster_block() * s.groups + group;
    for (int block = 0; block < s.blocks; ++block)
      x.each_lane([&](int i) {
        if (i != lane) return;
        s.blocks == 1 ? x.write(to, word) : x.store_counted(x.reach(block), to, word, of.filled());
      });
  }
  template <class X>
  static void tell(const given_rows<X>& of, const rows_setting& s) {
    if (s.blocks == 1) of.tell();
  }
  template <class X>
  static std::uint32_t read(X& x, const rows_setting& s, std::uint32_t* words, int block, int group) {
    return x.read(words + block * s.groups + group);
  }
};

std::vector<mutant> giving_mutants(const rows_setting& s) {
  using enum change;
  const auto wrong = rows_wrong<giving>(s), wrong_alone = rows_wrong<giving>({1, 2, 1, 3});
  constexpr verbs wait = verbs::mbarrier_wait, arrive = verbs::mbarrier_arrive,
                  expect = verbs::mbarrier_expect, store = verbs::store_counted, init = verbs::mbarrier_init;
  const std::vector<verdict> early{verdict::data_race, verdict::garbage_read}, stops{verdict::deadlock},
      overwritten{verdict::data_race, verdict::mbarrier_misuse}, left{verdict::loose_end},
      any{verdict::deadlock, verdict::data_race, verdict::mbarrier_misuse, verdict::garbage_read,
          verdict::broken_promise};
  return rows_mutants<giving>(
      s, any,
      {wrong("a row is lost", "Progress", stops,
             {{.what = store, .how = lost, .cell = "row value", .time = 1}}),
       wrong("rows stay in the own block", "T1", any, {{.what = store, .how = own, .cell = "row value"}}),
       wrong("rows are not expected", "Progress", stops,
             {{.what = expect, .how = lost, .cell = "rows filled"}}),
       wrong("a row less is expected", "T1", any,
             {{.what = expect, .how = shifted, .cell = "rows filled", .by = -4}}),
       wrong("a row more is expected", "Progress", stops,
             {{.what = expect, .how = shifted, .cell = "rows filled", .by = 4}}),
       wrong("a phase takes an arrival more", "Progress", stops,
             {{.what = init, .how = shifted, .cell = "rows filled", .by = 1}}),
       wrong("rows are stored over without a wait", "T2", any,
             {{.what = wait, .how = lost, .where = rows_taken}}),
       wrong("givers wait at block scope", "T2", overwritten,
             {{.what = wait, .how = narrow, .where = rows_taken}}),
       wrong("the first turn's givers wait", "Start", stops,
             {{.what = wait, .how = shifted, .where = rows_taken, .by = 1}}),
       wrong("rows are stored before their place is acquired", "T2", any, {.flaw = rows_flaw::unacquired}),
       wrong("a block leaves what is stored there", "End", left, {.flaw = rows_flaw::leaves}),
       wrong("the last turn is released to blocks that have left", "End", left,
             {.flaw = rows_flaw::all_released}),
       wrong_alone("who is alone tells before it has written", "T1", early,
                   {{.what = verbs::write, .how = late, .cell = "row value"}}),
       wrong_alone("who is alone does not tell", "Progress", stops,
                   {{.what = arrive, .how = lost, .cell = "rows filled"}}),
       wrong_alone("a phase takes a giver less", "T1", any,
                   {{.what = init, .how = shifted, .cell = "rows filled", .by = -1}})});
}

}  // namespace

protocol_check given_rows_check() {
  return {.name = "given_rows",
          .title = "Rows that every block of a cluster gives to all of them",
          .headers = {"src/protocol/given_rows.hpp"},
          .explorations = {rows_hold<giving>({2, 1, 1, 1}), rows_hold<giving>({1, 1, 2, 4}),
                           rows_hold<giving>({1, 2, 1, 3}), rows_hold<giving>({2, 1, 1, 5}),
                           rows_hold<giving>({2, 1, 2, 3}), rows_hold<giving>({2, 2, 1, 2}),
                           rows_hold<giving>({3, 1, 1, 3}), rows_hold<giving>({4, 1, 1, 3}),
                           rows_hold<giving>({4, 1, 2, 2}), unmet_rows_hold<giving>({2, 1, 2, 3}),
                           late_rows_hold<giving>({2, 1, 1, 2})},
          .mutants = giving_mutants({2, 1, 2, 3})};
}

}  // namespace baton::checks
