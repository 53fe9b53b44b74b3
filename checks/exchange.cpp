// The exchange as it should go: rounds in a row on the same counters and buffers, nobody gives up.
#include "checks/exchange_protocols.hpp"

namespace baton::checks {
namespace {

using check::verdict;

/// Two blocks share the expert that every token goes to, and the replies to each rank.
const exchange_setting shared{.blocks = {2}, .tokens = {2}, .route = routing::one_expert, .rounds = 1};
/// Each block of rank 0 completes one of rank 1's experts.
const exchange_setting elected{.blocks = {2, 1}, .experts = 4, .tokens = {4}, .rounds = 1};
/// Rank 1's tokens fill two experts of rank 0, and so two blocks' replies; its first expert has one row.
const exchange_setting replied{
    .blocks = {2, 1}, .experts = 4, .top_k = 2, .tokens = {0, 1}, .route = routing::one_expert, .rounds = 1};
const exchange_setting gated{.blocks = {2, 1}, .tokens = {2}, .rounds = 2};

void add_rounds(std::vector<exploration>& to, arrival_policy policy) {
  const auto holds = [&](const char* name, exchange_setting e) {
    e.policy = policy;
    to.push_back(exchange_holds(name, e));
  };
  holds("2 ranks of 1 expert, 1 round", {.rounds = 1});
  holds("2 ranks of 1 expert, 4 rounds", {.rounds = 4});
  holds("2 ranks of 2 experts, top 2, 3 rounds", {.experts = 4, .top_k = 2, .tokens = {2}});
  holds("3 ranks of 1 expert, 4 rounds", {.ranks = 3, .experts = 3, .rounds = 4});
  holds("3 ranks of 2 experts, top 2, 3 rounds", {.ranks = 3, .experts = 6, .top_k = 2, .tokens = {2}});
  holds("3 ranks of 2, 1, 1 experts, top 2, 3 rounds", {.ranks = 3, .experts = 4, .top_k = 2, .tokens = {2}});
  holds("2 ranks, all tokens to rank 0, none from rank 1, 3 rounds",
        {.tokens = {2, 0}, .route = routing::one_expert});
  holds("3 ranks, all tokens to rank 0, none from rank 1, 3 rounds",
        {.ranks = 3, .experts = 3, .tokens = {2, 0, 1}, .route = routing::one_expert});
  holds("2 ranks, the first of 2 blocks, 3 rounds", {.blocks = {2, 1}, .tokens = {2}});
  holds("2 ranks of 2 blocks, 3 rounds", {.blocks = {2}, .tokens = {2}});
  holds("2 ranks of 2 blocks and 2 experts, 1 round",
        {.blocks = {2}, .experts = 4, .tokens = {2}, .rounds = 1});
  holds("2 ranks of 2 blocks, all tokens to one expert, 1 round", shared);
  holds("2 ranks, 2 blocks of rank 0 elect in dispatch, 1 round", elected);
  holds("2 ranks, 2 blocks of rank 0 elect in combine, 1 round", replied);
  holds("2 ranks, the first of 3 blocks, 2 rounds", {.blocks = {3, 1}, .tokens = {3}, .rounds = 2});
  holds("2 ranks of 3 blocks, 1 round", {.blocks = {3}, .tokens = {3}, .rounds = 1});
  holds("2 ranks, the second of 3 blocks, all tokens to one expert, 2 rounds",
        {.blocks = {1, 3}, .tokens = {3}, .route = routing::one_expert, .rounds = 2});
  holds("2 ranks, the first of 4 blocks, 1 round", {.blocks = {4, 1}, .tokens = {4}, .rounds = 1});
  holds("2 ranks of 2 blocks of 2 warps, 2 rounds",
        {.blocks = {2}, .warps = {2}, .tokens = {2}, .rounds = 2});
  holds("2 ranks, blocks of 2 warps, 3 rounds", {.warps = {2}, .experts = 3, .tokens = {2}});
  if (policy == arrival_policy::epoch)
    holds("2 ranks, 3 rounds across the wrap of the epoch", {.rounds_before = 0xfffffffe});
}

/// Tokens that several warps share, formats, sizes beyond a warp's lanes, and what callers may get wrong.
void add_kinds(std::vector<exploration>& to, arrival_policy policy) {
  const auto holds = [&](const char* name, exchange_setting e) {
    e.policy = policy;
    to.push_back(exchange_holds(name, e));
  };
  constexpr token_format fp8 = token_format::blockwise_fp8;
  constexpr routing one_expert = routing::one_expert, backwards = routing::backwards,
                    scattered = routing::scattered, first_token = routing::first_token,
                    repeated = routing::repeated, with_holes = routing::with_holes;
  holds("2 ranks of 2 blocks, 2 warps share a token, 1 round", {.blocks = {2}, .hidden = 264, .rounds = 1});
  holds("2 ranks, the first of 2 blocks, which share a token, 2 rounds",
        {.blocks = {2, 1}, .hidden = 264, .rounds = 2});
  holds("2 ranks, blocks of 2 warps, which share a token, 3 rounds", {.warps = {2}, .hidden = 264});
  holds("2 ranks, the second of 2 blocks of 2 warps, all its tokens to one expert, 2 rounds",
        {.blocks = {1, 2}, .warps = {2}, .tokens = {0, 4}, .route = one_expert, .rounds = 2});
  holds("2 ranks, the first of 2 blocks, all tokens to one expert, 2 rounds",
        {.blocks = {2, 1}, .tokens = {2}, .route = one_expert, .rounds = 2});
  holds("2 ranks of 2 blocks, routed backwards, 2 rounds",
        {.blocks = {2}, .tokens = {2}, .route = backwards, .rounds = 2});
  holds("2 ranks, the first of 2 blocks of 2 warps, routed without order, top 2, 1 round",
        {.blocks = {2, 1},
         .warps = {2},
         .experts = 4,
         .top_k = 2,
         .tokens = {3},
         .route = scattered,
         .rounds = 1});
  holds("3 ranks, 5 experts, routed without order, top 2, 3 rounds",
        {.ranks = 3, .experts = 5, .top_k = 2, .tokens = {3, 2, 4}, .route = scattered});
  holds("8 ranks, 11 experts, uneven tokens, top 3, 2 rounds",
        {.ranks = 8, .experts = 11, .top_k = 3, .tokens = {2, 0, 1, 3}, .rounds = 2});
  holds("8 ranks, 8 experts, top 2, 3 rounds", {.ranks = 8, .experts = 8, .top_k = 2, .tokens = {2}});
  holds("1 rank of 2 blocks, 33 experts, 2 rounds", {.ranks = 1,
                                                     .blocks = {2},
                                                     .experts = 33,
                                                     .top_k = 32,
                                                     .tokens = {2},
                                                     .route = first_token,
                                                     .rounds = 2});
  holds("1 rank, a block of 2 warps, 33 experts, 1 round",
        {.ranks = 1, .warps = {2}, .experts = 33, .rounds = 1});
  holds("2 ranks, 288 ids, 1 round", {.experts = 32, .top_k = 32, .tokens = {9, 0}, .rounds = 1});
  holds("2 ranks, fp8, 3 rounds", {.hidden = 128, .format = fp8, .tokens = {2}});
  holds("2 ranks, fp8, the first of 2 blocks, which share a token, 1 round",
        {.blocks = {2, 1}, .hidden = 640, .format = fp8, .rounds = 1});
  holds("2 ranks, more copies than room, 3 rounds", {.top_k = 2, .tokens = {2}, .route = repeated});
  holds("2 ranks, the first of 2 blocks, more copies than room, 2 rounds",
        {.blocks = {2, 1}, .top_k = 2, .tokens = {2}, .route = repeated, .rounds = 2});
  holds("2 ranks, ids that are no expert's, 3 rounds",
        {.experts = 4, .top_k = 3, .tokens = {3}, .route = with_holes});
  holds("2 ranks, the first of 2 blocks of 2 warps, ids that are no expert's, 1 round", {.blocks = {2, 1},
                                                                                         .warps = {2, 1},
                                                                                         .experts = 4,
                                                                                         .top_k = 3,
                                                                                         .tokens = {3},
                                                                                         .route = with_holes,
                                                                                         .rounds = 1});
  holds("2 ranks, a row's source is spoilt, 3 rounds",
        {.tokens = {2}, .spoils_source = 1, .gives_up = {at_arrivals}});
  holds("2 ranks, the first of 2 blocks, a row's source is spoilt, 2 rounds",
        {.blocks = {2, 1},
         .tokens = {2},
         .rounds = 2,
         .spoils_source = 1,
         .gives_up = {anywhere, at_arrivals}});
}

// Cells, as exchange_memory.hpp names them.
constexpr const char* words = "dispatch word, combine word";
constexpr const char* counted = "finished";
constexpr const char* gates = "offsets ready, combine ready";
constexpr const char* departures = "dispatch departed, combine departed";

std::vector<mutant> arrival_mutants(arrival_policy policy) {
  using enum change;
  constexpr verbs publishes = verbs::release_store, waits = verbs::wait;
  const std::vector<verdict> stale{verdict::data_race, verdict::broken_promise};
  const auto wrong = [&](const char* name, const char* breaks, const std::vector<verdict>& as,
                         const planted_bug& bug) {
    return exchange_mutant(name, breaks, as, {.policy = policy, .bug = bug});
  };
  std::vector<mutant> all{
      wrong("arrival words are stored relaxed", "E1", stale,
            {.what = publishes, .how = relaxed, .cell = words}),
      wrong("arrival words are stored plainly", "E1", stale,
            {.what = publishes, .how = plain, .cell = words}),
      wrong("arrival words are stored at device scope", "E1", {verdict::scope_race},
            {.what = publishes, .how = narrow, .cell = words}),
      wrong("arrival words are awaited relaxed", "E1", stale, {.what = waits, .how = relaxed, .cell = words}),
      wrong("arrival words are awaited at device scope", "E1", {verdict::scope_race},
            {.what = waits, .how = narrow, .cell = words}),
      wrong("payload is written after its word", "E1", stale, payload_after_word),
      exchange_mutant("dispatch follows dispatch, no combine between", "E2",
                      {verdict::data_race, verdict::deadlock}, {.policy = policy, .combines = false})};
  if (policy == arrival_policy::epoch) {
    all.push_back(wrong("rounds are not counted", "Start", stale,
                        {.what = verbs::write, .how = lost, .cell = "rounds completed"}));
  } else {
    all.push_back(wrong("words are not put back", "Start", stale,
                        {.what = verbs::relaxed_store, .how = lost, .cell = words}));
  }
  return all;
}

std::vector<mutant> block_mutants(arrival_policy policy) {
  using enum change;
  constexpr verbs add = verbs::add, put_back = verbs::relaxed_store;
  const std::vector<verdict> stale{verdict::data_race, verdict::broken_promise},
      confused{verdict::data_race, verdict::broken_promise, verdict::deadlock, verdict::counter_misuse};
  const auto wrong = [&](const char* name, const char* breaks, const std::vector<verdict>& as,
                         const planted_bug& bug, exchange_setting e) {
    e.policy = policy;
    e.bug = bug;
    return exchange_mutant(name, breaks, as, e);
  };
  const auto in_region_b = [](const exchange_setting& e) {  // as many cells lower as there are expert slots
    return planted_bug{
        .what = add | put_back, .how = moved, .cell = "finished replies", .by = -4 * e.experts};
  };
  return {
      wrong("the gate opens relaxed", "G1", stale,
            {.what = verbs::release_store, .how = relaxed, .cell = gates}, gated),
      wrong("the gate is passed relaxed", "G1", stale, {.what = verbs::wait, .how = relaxed, .cell = gates},
            gated),
      wrong("the gate is left relaxed", "G2", stale, {.what = add, .how = relaxed, .cell = departures},
            gated),
      wrong("a flag for each block, in a region smaller than the grid", "G2", confused,
            {.what = verbs::wait, .how = moved, .cell = "combine ready", .by = 4, .each = per::block}, gated),
      wrong("counting does not release", "C1", stale, {.what = add, .how = without_release, .cell = counted},
            shared),
      wrong("counting does not acquire", "C1", stale, {.what = add, .how = without_acquire, .cell = counted},
            shared),
      wrong("counting at block scope", "C1", {verdict::scope_race},
            {.what = add, .how = narrow, .cell = counted}, shared),
      wrong("dispatch elects relaxed who publishes", "C1", stale,
            {.what = add, .how = relaxed, .cell = "finished experts"}, elected),
      wrong("combine elects relaxed who publishes", "C1", stale,
            {.what = add, .how = relaxed, .cell = "finished replies"}, shared),
      wrong("combine elects in region B, and sums there elect nobody", "Start", {verdict::counter_misuse},
            in_region_b(shared), shared),
      wrong("combine elects in region B, and sums there elect too early", "Start", stale,
            in_region_b(replied), replied),
      wrong("cells are not put back", "Start", confused,
            {.what = put_back,
             .how = lost,
             .cell = "finished, dispatch departed, combine departed, offsets ready, combine ready"},
            gated)};
}

}  // namespace

protocol_check exchange_check() {
  protocol_check c{.name = "exchange",
                   .title = "Dispatch and combine: the four kernels, round after round",
                   .headers = exchange_headers(),
                   .explorations = {},
                   .mutants = {}};
  for (const arrival_policy policy : {arrival_policy::epoch, arrival_policy::sentinel}) {
    add_rounds(c.explorations, policy);
    add_kinds(c.explorations, policy);
    for (const auto& mutants : {arrival_mutants(policy), block_mutants(policy)})
      c.mutants.insert(c.mutants.end(), mutants.begin(), mutants.end());
  }
  return c;
}

}  // namespace baton::checks
