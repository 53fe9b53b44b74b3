// Layout per_rank with weights that are given to combine: rounds in a row on the same words, and ranks that give up at any wait.
#include "checks/all.hpp"
#include "checks/per_rank_exploration.hpp"

namespace baton::checks {
namespace {

using check::verdict;

exploration with_late_weights(const char* name, exchange_setting e) {
  e.late_weights = true;
  return {name, [e](const check::bounds& limits) { return check_per_rank(e, limits); }};
}

std::vector<exploration> late_weights_hold() {
  return {
      with_late_weights("2 ranks, 1 round", {.warps = {3}, .rounds = 1}),
      with_late_weights("2 ranks, 2 rounds", {.warps = {3}, .rounds = 2}),
      with_late_weights("1 rank, 3 rounds", {.ranks = 1, .warps = {3}, .rounds = 3}),
      with_late_weights("2 ranks, the second with no token, 3 rounds",
                        {.warps = {3}, .tokens = {1, 0}, .rounds = 3, .looks = 1}),
      with_late_weights("2 ranks of 2 experts, top 2, 1 round",
                        {.warps = {3}, .experts = 4, .top_k = 2, .tokens = {2, 1}, .rounds = 1}),
      with_late_weights(
          "2 ranks, ids that are no expert's, 1 round",
          {.warps = {3}, .experts = 4, .top_k = 3, .tokens = {2}, .route = routing::with_holes, .rounds = 1}),
      with_late_weights(
          "2 ranks of 3, 2 rounds",
          {.ranks = 3, .warps = {3}, .experts = 3, .top_k = 2, .rounds = 2, .looks = 1, .absent = 0b100}),
      with_late_weights("2 ranks, 5 kernels a round, 2 rounds",
                        {.warps = {3}, .rounds = 2, .looks = 1, .is_apart = true}),
      with_late_weights("2 ranks, 1 round, a token of the second to the first, every wait may give up",
                        {.warps = {3},
                         .tokens = {0, 1},
                         .route = routing::one_expert,
                         .rounds = 1,
                         .gives_up = {anywhere},
                         .looks = 1}),
  };
}

constexpr const char* weight_words = "words of weights";  // as per_rank_exploration.cpp names them

std::vector<mutant> late_weights_wrong() {
  using enum change;
  const std::vector<verdict> lost_order{verdict::data_race, verdict::broken_promise,   verdict::garbage_read,
                                        verdict::deadlock,  verdict::unordered_stores, verdict::scope_race};
  exchange_setting two{.warps = {3}, .rounds = 2};
  two.late_weights = true;
  const auto wrong = [&](const char* name, const char* breaks, const std::vector<verdict>& as,
                         const planted_bug& bug, exchange_setting e) {
    e.late_weights = true;
    e.bug = bug;
    return mutant{name, breaks, as, [e](const check::bounds& limits) { return check_per_rank(e, limits); }};
  };
  return {
      wrong("words are not awaited", "W1", {verdict::broken_promise},
            {.what = verbs::wait, .how = lost, .where = "combine.weights"}, two),
      wrong("a word of the round before is taken", "W1", {verdict::broken_promise},
            {.what = verbs::wait, .how = lost, .where = "combine.weights", .epoch = 2}, two),
      wrong("words are of the round before", "Start", {verdict::deadlock},
            {.what = verbs::relaxed_store,
             .how = shifted,
             .cell = weight_words,
             .by = -(std::int64_t{1} << 32)},
            two),
      wrong("a word is lost", "Progress", {verdict::deadlock},
            {.what = verbs::relaxed_store, .how = lost, .cell = weight_words, .rank = 0}, two),
      wrong("words reach this rank's GPU only", "W1", lost_order,
            {.what = verbs::relaxed_store, .how = narrow, .cell = weight_words}, two),
      wrong("words are plain stores", "W1", lost_order,
            {.what = verbs::relaxed_store, .how = plain, .cell = weight_words}, two),
      wrong("kernels do not await those before them", "W2", lost_order,
            {.what = verbs::await_dependencies, .how = lost}, two),
      wrong("a wait that gave up counts as arrived", "Progress",
            {verdict::broken_promise, verdict::outside_memory, verdict::data_race, verdict::garbage_read},
            {.what = verbs::wait, .how = taken_for_success, .where = "combine.weights"},
            {.warps = {3}, .rounds = 1, .gives_up = {anywhere}, .looks = 1}),
  };
}

}  // namespace

protocol_check late_weights_check() {
  return {.name = "late_weights",
          .title = "Router weights that are given to combine, in words that are their own news",
          .headers = {"src/kernels/ep/late_weights/kernel.hpp"},
          .explorations = late_weights_hold(),
          .mutants = late_weights_wrong()};
}

}  // namespace baton::checks
