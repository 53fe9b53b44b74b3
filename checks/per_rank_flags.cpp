// Layout per_rank by released flags: rounds in a row on the same cells, and ranks that give up at any wait.
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
      flags_hold("2 ranks, tokens and sums of 2 units, 1 round", {.warps = {3}, .hidden = 456, .rounds = 1}),
      flags_hold("2 ranks, ids of 2 accesses, 1 round",
                 {.warps = {2}, .experts = 32, .top_k = 32, .tokens = {4, 1}, .rounds = 1}),
      flags_hold("3 ranks, 1 round", {.ranks = 3, .warps = {3}, .experts = 3, .rounds = 1}),
      flags_hold("2 ranks, 4 kernels a round, 3 rounds", {.warps = {3}, .rounds = 3, .is_apart = true}),
  };
}

std::vector<exploration> rounds_by_words() {
  return {
      flags_hold("in words: 2 ranks, 3 rounds", {.warps = {3}, .rounds = 3, .few_tokens = 1}),
      flags_hold("in words: 2 ranks, all tokens to one expert, 3 rounds",
                 {.warps = {3}, .route = routing::one_expert, .rounds = 3, .few_tokens = 1}),
      flags_hold("2 tokens by flags and 1 in words, 3 rounds",
                 {.warps = {3}, .experts = 4, .top_k = 2, .tokens = {2, 1}, .rounds = 3, .few_tokens = 1}),
      flags_hold("in words: 2 ranks, tokens and sums of 2 units, 1 round",
                 {.warps = {3}, .hidden = 456, .rounds = 1, .few_tokens = 1}),
      flags_hold("in words: 2 ranks, 4 kernels a round, 3 rounds",
                 {.warps = {3}, .rounds = 3, .is_apart = true, .few_tokens = 1}),
  };
}

std::vector<exploration> failures_by_flags() {
  return {
      flags_hold("1 rank, 2 rounds, every wait may give up",
                 {.ranks = 1, .warps = {3}, .rounds = 2, .gives_up = {anywhere}}),
      flags_hold("2 ranks, 1 round, a token of the second to the first, every wait may give up",
                 {.warps = {3},
                  .tokens = {0, 1},
                  .route = routing::one_expert,
                  .rounds = 1,
                  .gives_up = {anywhere}}),
      flags_hold("in words: 2 ranks, 1 round, a token of the second to the first, every wait may give up",
                 {.warps = {3},
                  .tokens = {0, 1},
                  .route = routing::one_expert,
                  .rounds = 1,
                  .gives_up = {anywhere},
                  .few_tokens = 1}),
  };
}

// Cells, as per_rank_exploration.cpp names them.
constexpr const char* ids_in_words = "even ids, odd ids";
constexpr const char* units_of_tokens = "even tokens, odd tokens";

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

/// Of flags and what they tell of.
std::vector<mutant> bugs_of_flags() {
  using enum change;
  constexpr verbs stores = verbs::release_store;
  const exchange_setting two{.warps = {3}, .rounds = 2};
  const auto older = -static_cast<std::int64_t>(line_flag(1));
  return {
      flags_wrong("a token's flag comes before its data", "E1", lost_edge(),
                  {.what = verbs::write, .how = late, .cell = units_of_tokens, .until = stores}, two),
      flags_wrong("a sum's flag comes before its data", "E1", lost_edge(),
                  {.what = verbs::write, .how = late, .cell = "sums", .until = stores}, two),
      flags_wrong("flags of tokens release nothing", "E1", lost_edge(),
                  {.what = stores, .how = relaxed, .cell = "token flags"}, two),
      flags_wrong("flags of sums release nothing", "E1", lost_edge(),
                  {.what = stores, .how = relaxed, .cell = "sum flags"}, two),
      flags_wrong("flags of tokens reach this rank only", "E1", lost_edge(),
                  {.what = stores, .how = narrow, .cell = "token flags"}, two),
      flags_wrong("flags of sums reach this rank only", "E1", lost_edge(),
                  {.what = stores, .how = narrow, .cell = "sum flags"}, two),
      flags_wrong("who waits for a token acquires nothing", "E1", lost_edge(),
                  {.what = verbs::wait, .how = without_acquire, .where = "dispatch.flag"}, two),
      flags_wrong("who waits for a sum acquires nothing", "E1", lost_edge(),
                  {.what = verbs::wait, .how = without_acquire, .where = "combine.flag"}, two),
      flags_wrong("tokens are not awaited", "E1", lost_edge(),
                  {.what = verbs::wait, .how = lost, .where = "dispatch.flag"}, two),
      flags_wrong("sums are not awaited", "E1", lost_edge(),
                  {.what = verbs::wait, .how = lost, .where = "combine.flag"}, two),
      flags_wrong("lanes do not meet before one of them tells", "E1", lost_edge(),
                  {.what = verbs::sync_warp, .how = lost}, two),
      flags_wrong("flags of tokens are of the round before", "Start", {verdict::deadlock},
                  {.what = stores, .how = shifted, .cell = "token flags", .by = older}, two),
      flags_wrong("sums' flags of the round before count as this round's", "E2", lost_edge(),
                  {.what = verbs::wait, .how = shifted, .where = "combine.flag", .by = -older}, two),
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
      flags_wrong("kernels do not await those before them", "E2", lost_edge(),
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

/// Of units in halves of words.
std::vector<mutant> bugs_of_words() {
  using enum change;
  constexpr verbs stores = verbs::relaxed_store;
  const exchange_setting two{.warps = {3}, .rounds = 2, .few_tokens = 1};
  const auto older = -static_cast<std::int64_t>(line_flag(1) << 32);
  return {
      flags_wrong(
          "words of tokens are of the round before", "Start", {verdict::deadlock},
          {.what = stores, .how = shifted, .cell = "even words of tokens, odd words of tokens", .by = older},
          two),
      flags_wrong("words of tokens are not awaited", "W1", lost_edge(),
                  {.what = verbs::wait, .how = lost, .where = "dispatch.words"}, two),
      flags_wrong("words of sums are not awaited", "W1", lost_edge(),
                  {.what = verbs::wait, .how = lost, .where = "combine.words"}, two),
      flags_wrong("words of sums of the round before count as this round's", "W2", lost_edge(),
                  {.what = verbs::wait, .how = shifted, .where = "combine.words", .by = -older}, two),
      flags_wrong("a word of a token is lost", "Progress", {verdict::deadlock},
                  {.what = stores, .how = lost, .cell = "odd words of tokens", .time = 1}, two),
      flags_wrong(
          "a wait for words that gave up counts as arrived", "W1",
          {verdict::broken_promise, verdict::outside_memory, verdict::data_race, verdict::garbage_read},
          {.what = verbs::wait, .how = taken_for_success, .where = "combine.words"},
          {.warps = {3}, .rounds = 1, .gives_up = {anywhere}, .few_tokens = 1}),
  };
}

}  // namespace

protocol_check exchange_flags_check() {
  const std::string kernels = "src/kernels/ep/per_rank/", protocol = "src/protocol/";
  protocol_check c{.name = "exchange_flags",
                   .title =
                       "Dispatch and combine, a message for each token and rank: data in words or told of by "
                       "released flags",
                   .headers = {protocol + "released_flag.hpp", protocol + "id_word.hpp",
                               protocol + "half_word.hpp", kernels + "by_flags.hpp", kernels + "id_words.hpp",
                               kernels + "dispatch.hpp", kernels + "combine.hpp"},
                   .explorations = rounds_by_flags(),
                   .mutants = bugs_of_flags()};
  for (const auto& more : {rounds_by_words(), failures_by_flags()})
    c.explorations.insert(c.explorations.end(), more.begin(), more.end());
  for (const auto& more : {bugs_of_rounds_by_flags(), bugs_of_words()})
    c.mutants.insert(c.mutants.end(), more.begin(), more.end());
  return c;
}

}  // namespace baton::checks
