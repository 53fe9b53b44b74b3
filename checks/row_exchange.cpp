// The two blocks of a pair swap row values and tiles as wide-head attention does.
#include "checks/all.hpp"
#include "checks/row_exchange_runs.hpp"

namespace baton::checks {
namespace {

using check::verdict;

check::result explore_swap(const swap_shape& s, const swap_bug& bug, const check::bounds& limits) {
  return check::explore(limits, [&](check::program& p) {
    const auto groups = static_cast<std::size_t>(s.groups), warps = static_cast<std::size_t>(s.warps());
    const auto words = static_cast<std::size_t>(products_of_tiles::words_of(s) * s.tiles) * 2 * warps;
    const products_of_tiles out{p.allocate<std::uint32_t>(words, "product")};
    p.shared_memory(s.shared_bytes());
    p.name_shared(0, sizeof(mbarrier), groups, "tile filled");
    p.name_shared(groups * sizeof(mbarrier), sizeof(mbarrier), groups, "tile free");
    p.name_shared(2 * groups * sizeof(mbarrier), sizeof(mbarrier), 2 * warps, "rows filled");
    p.name_shared(s.barrier_bytes(), sizeof(vec16), groups * static_cast<std::size_t>(2 * s.group_warps),
                  "chunk of tile");
    p.name_shared(s.rows_at(), sizeof(float), 2 * warps * group_warp_rows, "row value");
    p.clusters_of(2);
    for (int block = 0; block < 2; ++block) {
      for (int warp = 0; warp < s.warps(); ++warp) {
        p.spawn(0, block, warp, [=, &p](check::context& base) {
          group_of_rows x{base, bug.bug, p.names(), s.group_warps};
          swapping_warp{x, p, s, out, bug.flaw}.run();
        });
      }
    }
    if (!limits.may_time_out)
      p.at_end(
          [=, &p] { p.require(out.are_right(s), "products are with the other's tiles, each with its own"); });
  });
}

std::string number_and(int n, const char* what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}
exploration swap_holds(const swap_shape& s) {
  return {number_and(s.groups, "group") + " of " + number_and(s.group_warps, "warp") + ", " +
              number_and(s.tiles, "tile"),
          [s](const check::bounds& limits) { return explore_swap(s, {}, limits); }};
}
/// Any of the waits may give up.
check::result explore_late_swap(const swap_shape& s, const swap_bug& bug, check::bounds limits) {
  limits.may_time_out = [](const wait_site&) { return true; };
  return explore_swap(s, bug, limits);
}

exploration late_swap_holds(const swap_shape& s) {
  return {swap_holds(s).name + ", waits give up",
          [s](const check::bounds& limits) { return explore_late_swap(s, {}, limits); }};
}
/// A block that has taken what there is to take may end.
exploration unmet_swap_holds(const swap_shape& s) {
  return {swap_holds(s).name + ", no meeting at the end",
          [s](const check::bounds& limits) { return explore_swap(s, {.flaw = swap_flaw::unmet}, limits); }};
}

std::vector<mutant> swap_mutants(const swap_shape& s) {
  using enum change;
  const auto wrong = [s](const char* name, const char* breaks, std::vector<verdict> as, const swap_bug& bug) {
    return mutant{name, breaks, std::move(as),
                  [s, bug](const check::bounds& limits) { return explore_swap(s, bug, limits); }};
  };
  constexpr verbs wait = verbs::mbarrier_wait, expect = verbs::mbarrier_expect, store = verbs::store_counted;
  const std::vector<verdict> early{verdict::data_race, verdict::garbage_read}, race{verdict::data_race},
      stops{verdict::deadlock}, overwritten{verdict::data_race, verdict::mbarrier_misuse},
      wrong_scope{verdict::scope_race}, left{verdict::loose_end};
  return {
      wrong("row values are taken without a wait", "E1", early,
            {{.what = wait, .how = lost, .where = rows_given}}),
      wrong("row values of the other parity", "E1",
            {verdict::data_race, verdict::garbage_read, verdict::deadlock},
            {{.what = wait, .how = shifted, .where = rows_given, .by = 1}}),
      wrong("a row value is given late", "E1", {verdict::deadlock, verdict::data_race},
            {{.what = store, .how = late, .cell = "row value", .block = 0, .time = 1}}),
      wrong("a row value is lost", "Progress", stops,
            {{.what = store, .how = lost, .cell = "row value", .time = 1}}),
      wrong("row values stay in the own block", "E1",
            {verdict::deadlock, verdict::data_race, verdict::mbarrier_misuse, verdict::broken_promise},
            {{.what = store, .how = own, .cell = "row value"}}),
      wrong("bytes of row values are not expected", "Progress", stops,
            {{.what = expect, .how = lost, .cell = "rows filled"}}),
      wrong("half of the bytes of row values are expected", "E1",
            {verdict::deadlock, verdict::mbarrier_misuse},
            {{.what = expect, .how = shifted, .cell = "rows filled", .by = -32}}),
      wrong("waits for row values at block scope", "E1", wrong_scope,
            {{.what = wait, .how = narrow, .where = rows_given}}),
      wrong("one place for row values", "E2", overwritten, {.flaw = swap_flaw::one_place}),
      wrong("no tile is released between row values", "E2", overwritten, {.flaw = swap_flaw::freed_by_rows}),
      wrong("a tile is read without a wait", "T1", early, {{.what = wait, .how = lost, .where = tile_given}}),
      wrong("a tile of the other parity", "T1",
            {verdict::data_race, verdict::garbage_read, verdict::deadlock},
            {{.what = wait, .how = shifted, .where = tile_given, .by = 1}}),
      wrong("no proxy fence before products read a tile", "T1", race,
            {{.what = verbs::fence_proxy, .how = lost}}),
      wrong("waits for tiles at block scope", "T1", wrong_scope,
            {{.what = wait, .how = narrow, .where = tile_given}}),
      wrong("bytes of tiles are not expected", "Progress", stops,
            {{.what = expect, .how = lost, .cell = "tile filled"}}),
      wrong("a chunk of a tile is lost", "Progress", stops,
            {{.what = store, .how = lost, .cell = "chunk", .time = 3}}),
      wrong("a tile is stored before its place is acquired", "T2", overwritten,
            {.flaw = swap_flaw::stored_unacquired}),
      wrong("a place is acquired without a wait", "T2", overwritten,
            {{.what = wait, .how = lost, .where = tile_free}}),
      wrong("barriers are initialised and not made known", "Start", race, {.flaw = swap_flaw::unfenced}),
      wrong("the first tile's place is awaited", "Start", stops,
            {{.what = wait, .how = shifted, .where = tile_free, .by = 1}}),
      wrong("a tile is released while products read it", "T2", race, {.flaw = swap_flaw::freed_unawaited}),
      wrong("a release is lost", "Progress", stops,
            {{.what = verbs::mbarrier_arrive, .how = lost, .cell = "tile free", .time = 1}}),
      wrong("a release stays in the own block", "T2",
            {verdict::deadlock, verdict::data_race, verdict::mbarrier_misuse},
            {{.what = verbs::mbarrier_arrive, .how = own, .cell = "tile free"}}),
      wrong("a tile is free when one warp has read it", "T2", {verdict::data_race, verdict::mbarrier_misuse},
            {{.what = verbs::mbarrier_init, .how = shifted, .cell = "tile free", .by = -1}}),
      wrong("waits for free places at block scope", "T2", overwritten,
            {{.what = wait, .how = narrow, .where = tile_free}}),
      wrong("a block leaves what is stored there", "End", left, {.flaw = swap_flaw::leaves}),
      {"who gave up quietly reports nothing",
       "Waits",
       {verdict::broken_promise},
       [s](const check::bounds& limits) {
         return explore_late_swap({1, 1, 1}, {.flaw = swap_flaw::keeps_silent}, limits);
       }}};
}

}  // namespace

protocol_check row_exchange_check() {
  return {.name = "row_exchange",
          .title = "Row values and tiles that the two blocks of a pair give each other",
          .headers = {"src/protocol/row_exchange.hpp"},
          .explorations = {swap_holds({1, 1, 1}), swap_holds({1, 1, 2}), swap_holds({1, 1, 7}),
                           swap_holds({1, 2, 3}), swap_holds({2, 1, 3}), swap_holds({1, 4, 2}),
                           unmet_swap_holds({1, 2, 3}), late_swap_holds({1, 1, 1})},
          .mutants = swap_mutants({1, 2, 4})};
}

}  // namespace baton::checks
