// Layout per_rank by flags: rounds in a row on the same cells, and ranks that give up at any wait.
#include "checks/all.hpp"
#include "checks/per_rank_exploration.hpp"
#include "protocol/line.hpp"

namespace baton::checks {
namespace {

using check::verdict;

exploration flags_hold(const char* name, const exchange_setting& e) {
  return {name, [e](const check::bounds& limits) { return check_by_flags(e, limits); }};
}

std::vector<exploration> rounds_by_flags() {
  return {
      flags_hold("2 ranks, 1 round", {.warps = {3}, .rounds = 1}),
      flags_hold("2 ranks, 3 rounds", {.warps = {3}, .rounds = 3}),
      flags_hold("1 rank, 5 rounds", {.ranks = 1, .warps = {3}, .rounds = 5}),
      flags_hold("2 ranks, all tokens to one expert, 3 rounds",
                 {.warps = {3}, .route = routing::one_expert, .rounds = 3}),
      flags_hold("2 ranks with no token, 4 rounds", {.warps = {3}, .tokens = {0}, .rounds = 4}),
      flags_hold("2 ranks, the second with no token, 3 rounds",
                 {.warps = {3}, .tokens = {1, 0}, .rounds = 3}),
      flags_hold("2 ranks of 2 experts, top 2, 2 rounds",
                 {.warps = {3}, .experts = 4, .top_k = 2, .tokens = {2, 1}, .rounds = 2}),
      flags_hold("2 ranks, a token lists an expert twice, 2 rounds",
                 {.warps = {3}, .top_k = 2, .route = routing::repeated, .rounds = 2}),
      flags_hold(
          "2 ranks, ids that are no expert's, 1 round",
          {.warps = {3}, .experts = 4, .top_k = 3, .tokens = {2}, .route = routing::with_holes, .rounds = 1}),
      flags_hold("2 ranks, the first of 2 blocks, 1 round",
                 {.blocks = {2, 1}, .warps = {3}, .tokens = {2}, .rounds = 1}),
      flags_hold("2 ranks, tokens and sums of 2 units, 3 rounds", {.warps = {3}, .hidden = 456, .rounds = 3}),
      flags_hold("2 ranks, ids of 2 accesses, 1 round",
                 {.warps = {2}, .experts = 32, .top_k = 32, .tokens = {4, 1}, .rounds = 1}),
      flags_hold("3 ranks, 3 rounds", {.ranks = 3, .warps = {3}, .experts = 3, .rounds = 3}),
      flags_hold("2 ranks of 3, 3 rounds",
                 {.ranks = 3, .warps = {3}, .experts = 3, .top_k = 2, .rounds = 3, .absent = 0b010}),
      flags_hold("2 ranks, 4 kernels a round, 3 rounds", {.warps = {3}, .rounds = 3, .is_apart = true}),
      flags_hold("2 ranks, sums in block FP8, 1 round",
                 {.warps = {3}, .hidden = 512, .rounds = 1, .fp8_sums = true}),
  };
}

std::vector<exploration> failures_by_flags() {
  return {
      flags_hold("1 rank of 2, beside the other, which was left out and sends until it gives up, 2 rounds",
                 {.warps = {3},
                  .top_k = 2,
                  .rounds = 2,
                  .gives_up = {nowhere, anywhere},
                  .absent = 0b10,
                  .absent_ranks_run = true}),
      flags_hold("1 rank, 2 rounds, every wait may give up",
                 {.ranks = 1, .warps = {3}, .rounds = 2, .gives_up = {anywhere}}),
      flags_hold("2 ranks, 1 round, a token of the second to the first, every wait may give up",
                 {.warps = {3},
                  .tokens = {0, 1},
                  .route = routing::one_expert,
                  .rounds = 1,
                  .gives_up = {anywhere}}),
  };
}

// Cells, as per_rank_exploration.cpp names them.
constexpr const char* ids_in_words = "even ids, odd ids";
constexpr const char* flag_of_cleared = "flags of what is cleared";

mutant flags_wrong(const char* name, const char* breaks, const std::vector<verdict>& as,
                   const planted_bug& bug, exchange_setting e) {
  e.bug = bug;
  return mutant{name, breaks, as, [e](const check::bounds& limits) { return check_by_flags(e, limits); }};
}

const std::vector<verdict>& lost_edge() {
  static const std::vector<verdict> any{verdict::data_race, verdict::broken_promise,   verdict::garbage_read,
                                        verdict::deadlock,  verdict::unordered_stores, verdict::scope_race};
  return any;
}

/// Rank 0 sends, rank 1 receives: what rank 1 stores into its own tokens, and rank 0 into its own sums, clears.
exchange_setting one_way(int rounds) {
  return {.warps = {3}, .tokens = {1, 0}, .rounds = rounds};
}

/// Of what is cleared and how others hear of it.
std::vector<mutant> bugs_of_clearing() {
  using enum change;
  constexpr verbs stores = verbs::release_store, clears = verbs::relaxed_store;
  const auto older = -static_cast<std::int64_t>(line_flag(2));
  return {
      flags_wrong("tokens are not cleared", "W2", lost_edge(),
                  {.what = clears, .how = lost, .cell = "odd tokens of rank 1", .rank = 1}, one_way(3)),
      flags_wrong("sums are not cleared", "W2", lost_edge(),
                  {.what = clears, .how = lost, .cell = "sums of rank 0", .rank = 0}, one_way(2)),
      flags_wrong("flags of what is cleared release nothing", "E1", lost_edge(),
                  {.what = stores, .how = relaxed, .cell = flag_of_cleared}, one_way(3)),
      flags_wrong("flags of what is cleared reach this rank only", "E1", lost_edge(),
                  {.what = stores, .how = narrow, .cell = flag_of_cleared}, one_way(3)),
      flags_wrong("who waits for what is cleared acquires nothing", "E1", lost_edge(),
                  {.what = verbs::wait, .how = without_acquire, .where = "dispatch.cleared"}, one_way(3)),
      flags_wrong("what is cleared is not awaited", "E1", lost_edge(),
                  {.what = verbs::wait, .how = lost, .where = "dispatch.cleared"}, one_way(3)),
      flags_wrong("flags of what is cleared are of rounds before", "Start", {verdict::deadlock},
                  {.what = stores, .how = shifted, .cell = flag_of_cleared, .by = older}, one_way(3)),
  };
}

/// Of rounds on the same cells, and of ids.
std::vector<mutant> bugs_of_rounds_by_flags() {
  using enum change;
  const exchange_setting two{.warps = {3}, .rounds = 2};
  return {
      flags_wrong("ids are not sent to one rank", "Progress", {verdict::deadlock},
                  {.what = verbs::relaxed_store,
                   .how = lost,
                   .cell = "even ids of rank 1, odd ids of rank 1",
                   .rank = 0},
                  two),
      flags_wrong("ids are not awaited", "W1", lost_edge(),
                  {.what = verbs::wait, .how = lost, .where = "dispatch.ids"}, two),
      flags_wrong("ids have one copy of cells", "W2", {verdict::deadlock, verdict::broken_promise},
                  {.what = verbs::relaxed_store | verbs::wait,
                   .how = moved,
                   .cell = "odd ids",
                   .by = -bytes_of_ids<ep::per_rank::flag_cells>(two)},
                  {.warps = {3}, .tokens = {0}, .rounds = 3}),
      flags_wrong("ids carry another round's check", "Start", {verdict::deadlock},
                  {.what = verbs::relaxed_store, .how = shifted, .cell = ids_in_words, .by = 1}, two),
      flags_wrong("kernels do not await those before them", "W2", lost_edge(),
                  {.what = verbs::await_dependencies, .how = lost}, two),
      flags_wrong("kernels do not look whether their rank gave up", "Progress", {verdict::broken_promise},
                  {.what = verbs::has_given_up, .how = lost},
                  {.warps = {3}, .rounds = 1, .gives_up = {anywhere}}),
      flags_wrong(
          "a wait that gave up counts as arrived", "E1",
          {verdict::broken_promise, verdict::outside_memory, verdict::data_race, verdict::garbage_read},
          {.what = verbs::wait, .how = taken_for_success},
          {.warps = {3}, .rounds = 1, .gives_up = {anywhere}}),
  };
}

/// Of units.
std::vector<mutant> bugs_of_words() {
  using enum change;
  constexpr verbs stores = verbs::relaxed_store;
  const exchange_setting two{.warps = {3}, .rounds = 2};
  return {
      flags_wrong("words of tokens are not awaited", "W1", lost_edge(),
                  {.what = verbs::wait, .how = lost, .where = "dispatch.words"}, two),
      flags_wrong("words of sums are not awaited", "W1", lost_edge(),
                  {.what = verbs::wait, .how = lost, .where = "combine.words"}, two),
      flags_wrong("a word of a token is lost", "Progress", {verdict::deadlock},
                  {.what = stores, .how = lost, .cell = "odd tokens", .time = 1}, two),
      flags_wrong("a word of a sum is lost", "Progress", {verdict::deadlock},
                  {.what = stores, .how = lost, .cell = "sums", .time = 1}, two),
      flags_wrong(
          "a wait for words that gave up counts as arrived", "W1",
          {verdict::broken_promise, verdict::outside_memory, verdict::data_race, verdict::garbage_read},
          {.what = verbs::wait, .how = taken_for_success, .where = "combine.words"},
          {.warps = {3}, .rounds = 1, .gives_up = {anywhere}}),
  };
}

}  // namespace

protocol_check exchange_flags_check() {
  const std::string kernels = "src/kernels/ep/per_rank/", protocol = "src/protocol/";
  protocol_check c{
      .name = "exchange_flags",
      .title =
          "Dispatch and combine, a message for each token and rank: data in words that are their "
          "own news",
      .headers = {protocol + "cleared_line.hpp", protocol + "released_flag.hpp", protocol + "id_word.hpp",
                  kernels + "by_flags.hpp", kernels + "id_words.hpp", kernels + "dispatch.hpp",
                  kernels + "combine.hpp"},
      .explorations = rounds_by_flags(),
      .mutants = bugs_of_clearing()};
  for (const auto& more : failures_by_flags()) c.explorations.push_back(more);
  for (const auto& more : {bugs_of_rounds_by_flags(), bugs_of_words()})
    c.mutants.insert(c.mutants.end(), more.begin(), more.end());
  return c;
}

}  // namespace baton::checks
