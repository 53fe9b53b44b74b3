// Layout per_rank: rounds in a row on the same cells, and ranks that give up at any wait.
#include "checks/all.hpp"
#include "checks/per_rank_exploration.hpp"
#include "protocol/line.hpp"

namespace baton::checks {
namespace {

using check::verdict;

exploration holds(const char* name, const exchange_setting& e) {
  return {name, [e](const check::bounds& limits) { return check_per_rank(e, limits); }};
}

std::vector<exploration> rounds_that_hold() {
  return {
      holds("2 ranks, 1 round", {.warps = {3}, .rounds = 1}),
      holds("2 ranks, 2 rounds", {.warps = {3}, .rounds = 2}),
      holds("1 rank, 5 rounds", {.ranks = 1, .warps = {3}, .rounds = 5}),
      holds("2 ranks, all tokens to one expert, 2 rounds",
            {.warps = {3}, .route = routing::one_expert, .rounds = 2}),
      holds("2 ranks with no token, 4 rounds", {.warps = {3}, .tokens = {0}, .rounds = 4}),
      holds("2 ranks, the second with no token, 2 rounds", {.warps = {3}, .tokens = {1, 0}, .rounds = 2}),
      holds("2 ranks of 2 experts, top 2, 2 rounds",
            {.warps = {3}, .experts = 4, .top_k = 2, .tokens = {2, 1}, .rounds = 2}),
      holds("2 ranks, a token lists an expert twice, 2 rounds",
            {.warps = {3}, .top_k = 2, .route = routing::repeated, .rounds = 2}),
      holds(
          "2 ranks, ids that are no expert's, 1 round",
          {.warps = {3}, .experts = 4, .top_k = 3, .tokens = {2}, .route = routing::with_holes, .rounds = 1}),
      holds("2 ranks, the first of 2 blocks, 1 round",
            {.blocks = {2, 1}, .warps = {3}, .tokens = {2}, .rounds = 1}),
      holds("2 ranks, tokens of 2 units, 1 round", {.warps = {3}, .hidden = 456, .rounds = 1}),
      holds("2 ranks, sums in block FP8, 1 round",
            {.warps = {3}, .hidden = 512, .rounds = 1, .fp8_sums = true}),
      holds("2 ranks, ids of 2 accesses, 1 round",
            {.warps = {2}, .experts = 32, .top_k = 32, .tokens = {8, 1}, .rounds = 1}),
      holds("3 ranks, 1 round", {.ranks = 3, .warps = {3}, .experts = 3, .rounds = 1}),
      holds("2 ranks of 3, 2 rounds",
            {.ranks = 3, .warps = {3}, .experts = 3, .top_k = 2, .rounds = 2, .absent = 0b100}),
      holds("2 ranks, 4 kernels a round, 3 rounds",
            {.warps = {3}, .rounds = 3, .looks = 1, .is_apart = true}),
  };
}

/// Two senders of the first rank take what is next of all: the second rank's third token is taken, not given.
const exchange_setting two_takers{.warps = {4, 3}, .tokens = {1, 3}, .rounds = 1, .takes_units = 1};
/// One does, in rounds that follow each other.
const exchange_setting one_taker{.warps = {2}, .top_k = 2, .tokens = {0, 2}, .rounds = 2, .takes_units = 1};

std::vector<exploration> takes_that_hold() {
  return {
      holds("2 ranks, two senders take what is next, 1 round", two_takers),
      holds("2 ranks, a sender takes what is next, 2 rounds", one_taker),
      holds("2 ranks, a sender takes two units at once, 1 round",
            {.warps = {3}, .tokens = {1, 4}, .rounds = 1, .takes_units = 2}),
      holds("2 ranks, senders of two blocks take what is next, 1 round",
            {.blocks = {2, 1}, .warps = {3}, .tokens = {1, 3}, .rounds = 1, .takes_units = 1}),
      holds("3 ranks, two senders take what is next, 1 round",
            {.ranks = 3, .warps = {4, 3}, .experts = 3, .tokens = {1, 2}, .rounds = 1, .takes_units = 1}),
      holds("2 ranks, senders take what is next, 4 kernels a round, 1 round",
            {.warps = {2}, .tokens = {0, 2}, .rounds = 1, .looks = 1, .is_apart = true, .takes_units = 1}),
      holds("2 ranks of 3, a sender takes what is next, 1 round", {.ranks = 3,
                                                                   .warps = {3},
                                                                   .experts = 3,
                                                                   .top_k = 2,
                                                                   .tokens = {1, 2},
                                                                   .rounds = 1,
                                                                   .takes_units = 1,
                                                                   .absent = 0b100}),
      holds("2 ranks, a sender takes what is next, sums in block FP8, 1 round",
            {.warps = {3}, .hidden = 512, .tokens = {1, 2}, .rounds = 1, .fp8_sums = true, .takes_units = 1}),
  };
}

std::vector<exploration> failures_that_hold() {
  return {
      holds("1 rank of 2, beside the other, which was left out and sends until it gives up, 2 rounds",
            {.warps = {3},
             .top_k = 2,
             .rounds = 2,
             .gives_up = {nowhere, anywhere},
             .looks = 1,
             .absent = 0b10,
             .absent_ranks_run = true}),
      holds("1 rank, 2 rounds, every wait may give up",
            {.ranks = 1, .warps = {3}, .rounds = 2, .gives_up = {anywhere}, .looks = 1}),
      holds("2 ranks, 1 round, a token of the second to the first, every wait may give up",
            {.warps = {3},
             .tokens = {0, 1},
             .route = routing::one_expert,
             .rounds = 1,
             .gives_up = {anywhere},
             .looks = 1}),
  };
}

// Cells, as per_rank_exploration.cpp names them.
constexpr const char* ids = "even ids, odd ids";
constexpr const char* tokens = "even tokens, odd tokens";

std::vector<mutant> planted_bugs() {
  using enum change;
  constexpr verbs stores = verbs::store_lines, waits = verbs::wait_lines;
  const std::vector<verdict> lost_order{verdict::data_race, verdict::broken_promise, verdict::garbage_read,
                                        verdict::deadlock, verdict::unordered_stores};
  const exchange_setting two{.warps = {3}, .rounds = 2};
  const auto wrong = [&](const char* name, const char* breaks, const std::vector<verdict>& as,
                         const planted_bug& bug, exchange_setting e) {
    e.bug = bug;
    return mutant{name, breaks, as, [e](const check::bounds& limits) { return check_per_rank(e, limits); }};
  };
  const auto older = -static_cast<std::int64_t>(line_flag(1));
  return {
      wrong("ids are not sent to one rank", "Progress", {verdict::deadlock},
            {.what = stores, .how = lost, .cell = "even ids of rank 1, odd ids of rank 1", .rank = 0}, two),
      wrong("a rank's own tokens are not sent", "Progress", {verdict::deadlock},
            {.what = stores, .how = lost, .cell = "even tokens of rank 0, odd tokens of rank 0", .rank = 0},
            {.warps = {3}, .route = routing::one_expert, .rounds = 1}),
      wrong("tokens carry the flag of the round before", "Start",
            {verdict::deadlock, verdict::broken_promise},
            {.what = stores, .how = shifted, .cell = tokens, .by = older}, two),
      wrong("a line of tokens tears", "L1", {verdict::broken_promise},
            {.what = stores, .how = torn, .cell = tokens}, two),
      wrong("a line of ids tears", "L1", {verdict::broken_promise},
            {.what = stores, .how = torn, .cell = ids}, two),
      wrong("a line of sums tears", "L1", {verdict::broken_promise},
            {.what = stores, .how = torn, .cell = "sums"}, two),
      wrong("tokens are not awaited", "L1", lost_order, {.what = waits, .how = lost, .cell = tokens}, two),
      wrong("ids are not awaited", "L1", lost_order, {.what = waits, .how = lost, .cell = ids}, two),
      wrong("sums are not awaited", "L1", lost_order, {.what = waits, .how = lost, .cell = "sums"}, two),
      wrong("ids have one copy of cells", "L2", {verdict::deadlock, verdict::broken_promise},
            {.what = stores | waits, .how = moved, .cell = "odd ids", .by = -bytes_of_ids(two)},
            {.warps = {3}, .tokens = {0}, .rounds = 2}),
      wrong("kernels do not await those before them", "L2", lost_order,
            {.what = verbs::await_dependencies, .how = lost}, two),
      wrong("rows are used before they are known", "I1", lost_order,
            {.what = verbs::mbarrier_wait, .how = lost, .where = "dispatch.rows_known"}, two),
      wrong("rows are numbered before all ids are noted", "I1", lost_order,
            {.what = verbs::mbarrier_wait, .how = lost, .where = "dispatch.ids_noted"},
            {.warps = {4}, .rounds = 1}),
      wrong("combine writes the round that it reads", "Start", lost_order,
            {.what = verbs::write, .how = moved, .cell = "round combined", .by = -8}, two),
      wrong("dispatch does not count rounds", "Start", lost_order,
            {.what = verbs::write, .how = lost, .cell = "round dispatched"}, two),
      wrong("a unit is taken twice", "T1", lost_order,
            {.what = verbs::add, .how = shifted, .cell = "units taken of rank 0", .time = 1, .by = -1},
            two_takers),
      wrong("a unit is left out", "T1", {verdict::deadlock},
            {.what = verbs::add, .how = shifted, .cell = "units taken of rank 0", .by = 1},
            {.warps = {3}, .tokens = {1, 4}, .rounds = 1, .takes_units = 1}),
      wrong("what was taken in the round before is not taken back", "T1", {verdict::deadlock},
            {.what = verbs::write, .how = lost, .cell = "units taken"}, one_taker),
      wrong("kernels do not look whether their rank gave up", "Progress", {verdict::broken_promise},
            {.what = verbs::has_given_up, .how = lost}, {.warps = {3}, .rounds = 1, .gives_up = {anywhere}}),
      wrong("a wait for lines that gave up counts as arrived", "L1",
            {verdict::broken_promise, verdict::outside_memory, verdict::data_race},
            {.what = waits, .how = taken_for_success},
            {.warps = {3}, .rounds = 1, .gives_up = {anywhere}, .looks = 1}),
  };
}

}  // namespace

protocol_check exchange_per_rank_check() {
  const std::string kernels = "src/kernels/ep/per_rank/";
  protocol_check c{
      .name = "exchange_per_rank",
      .title = "Dispatch and combine, a message for each token and rank: ids first, data in lines",
      .headers = {"src/protocol/line.hpp", kernels + "id_lines.hpp", kernels + "dispatch.hpp",
                  kernels + "combine.hpp"},
      .explorations = rounds_that_hold(),
      .mutants = planted_bugs()};
  for (const exploration& e : takes_that_hold()) c.explorations.push_back(e);
  for (const exploration& e : failures_that_hold()) c.explorations.push_back(e);
  return c;
}

}  // namespace baton::checks
