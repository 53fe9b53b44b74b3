// The exchange with ranks beyond the p2p group: puts that complete in any order but for fences, words that may arrive before
// puts they are not about, ranks that give up or die.
#include "checks/exchange_protocols.hpp"

namespace baton::checks {
namespace {

using check::verdict;

void add_rounds_of_groups(std::vector<exploration>& to, arrival_policy policy) {
  const auto holds = [&](const char* name, exchange_setting e) {
    e.policy = policy;
    to.push_back(exchange_holds(name, e));
  };
  holds("2 ranks apart, 1 round", {.rounds = 1, .p2p_group_size = 1});
  holds("2 ranks apart, 4 rounds", {.rounds = 4, .p2p_group_size = 1, .carriers = 8});
  holds("2 ranks apart, 2 experts each, top 2, 3 rounds",
        {.experts = 4, .top_k = 2, .tokens = {2}, .p2p_group_size = 1, .carriers = 12});
  holds("2 ranks apart, all tokens to rank 0, none from rank 1, 3 rounds",
        {.tokens = {2, 0}, .route = routing::one_expert, .p2p_group_size = 1});
  holds("2 ranks apart, the first of 2 blocks, 3 rounds",
        {.blocks = {2, 1}, .tokens = {2}, .p2p_group_size = 1, .carriers = 8});
  holds("2 ranks apart, of 2 blocks of 2 warps, 2 rounds",
        {.blocks = {2}, .warps = {2}, .tokens = {2}, .rounds = 2, .p2p_group_size = 1, .carriers = 6});
  holds("2 ranks apart, a token of 2 steps, 2 rounds",
        {.warps = {2}, .hidden = 264, .rounds = 2, .p2p_group_size = 1});
  holds("2 ranks apart, fp8, 2 rounds", {.hidden = 128,
                                         .format = token_format::blockwise_fp8,
                                         .tokens = {2},
                                         .rounds = 2,
                                         .p2p_group_size = 1});
  holds("2 ranks apart, more copies than room, 2 rounds",
        {.top_k = 2, .tokens = {2}, .route = routing::repeated, .rounds = 2, .p2p_group_size = 1});
  holds("2 ranks apart, ids that are no expert's, 2 rounds", {.experts = 4,
                                                              .top_k = 3,
                                                              .tokens = {3},
                                                              .route = routing::with_holes,
                                                              .rounds = 2,
                                                              .p2p_group_size = 1,
                                                              .carriers = 12});
  holds("3 ranks apart, 3 rounds", {.ranks = 3, .experts = 3, .p2p_group_size = 1, .carriers = 8});
  holds("3 ranks in groups of 2, 3 rounds", {.ranks = 3, .experts = 3, .p2p_group_size = 2, .carriers = 8});
  holds("3 ranks in groups of 2, 5 experts, routed without order, top 2, 2 rounds",
        {.ranks = 3,
         .experts = 5,
         .top_k = 2,
         .tokens = {2, 1},
         .route = routing::scattered,
         .rounds = 2,
         .p2p_group_size = 2,
         .carriers = 8});
  holds("4 ranks apart, 2 rounds",
        {.ranks = 4, .experts = 4, .tokens = {2}, .rounds = 2, .p2p_group_size = 1, .carriers = 7});
  holds("4 ranks in groups of 2, 2 rounds",
        {.ranks = 4, .experts = 4, .tokens = {2}, .rounds = 2, .p2p_group_size = 2, .carriers = 7});
}

void add_failures_of_groups(std::vector<exploration>& to, arrival_policy policy) {
  const auto holds = [&](const char* name, exchange_setting e) {
    e.policy = policy;
    to.push_back(exchange_holds(name, e));
  };
  holds("2 ranks apart, 2 rounds, every wait may give up",
        {.rounds = 2, .gives_up = {anywhere}, .p2p_group_size = 1});
  holds("2 ranks apart, 2 rounds, rank 1 dies at any step",
        {.rounds = 2, .gives_up = {at_arrivals}, .dies = 1, .p2p_group_size = 1});
  holds("3 ranks in groups of 2, 1 round, rank 2 dies at any step",
        {.ranks = 3, .experts = 3, .rounds = 1, .gives_up = {at_arrivals}, .dies = 2, .p2p_group_size = 2});
  holds("3 ranks in groups of 2, 1 round, rank 0 dies at any step",
        {.ranks = 3, .experts = 3, .rounds = 1, .gives_up = {at_arrivals}, .dies = 0, .p2p_group_size = 2});
}

constexpr const char* words_of_ranks = "dispatch word, combine word";

std::vector<mutant> mutants_of_groups(arrival_policy policy) {
  using enum change;
  const std::vector<verdict> stale{verdict::data_race, verdict::broken_promise};
  const exchange_setting apart{.policy = policy, .rounds = 2, .p2p_group_size = 1};
  const exchange_setting blocks{.policy = policy,
                                .blocks = {2},
                                .tokens = {2},
                                .route = routing::one_expert,
                                .rounds = 1,
                                .p2p_group_size = 1};
  const exchange_setting pairs{
      .policy = policy, .ranks = 3, .experts = 3, .rounds = 2, .p2p_group_size = 2, .carriers = 8};
  const auto wrong = [&](const char* name, const char* breaks, const std::vector<verdict>& as,
                         exchange_setting e, const planted_bug& bug) {
    e.bug = bug;
    return exchange_mutant(name, breaks, as, e);
  };
  exchange_setting no_combine = apart, one_buffer = apart, of_lanes = apart;
  of_lanes.hidden = 16;  // two lanes write a message
  no_combine.combines = false;
  one_buffer.shares_send_buffer = true;
  return {
      wrong("a word does not wait for the puts before it", "E1", stale, apart,
            {.what = verbs::fence_puts, .how = lost}),
      wrong("a word is signalled before its messages are put", "E1", stale, apart,
            {.what = verbs::put, .how = late, .until = verbs::signal}),
      wrong(
          "messages are put before they are written", "E1", stale, apart,
          {.what = verbs::write, .how = late, .cell = "sent messages, sent replies", .until = verbs::signal}),
      wrong("lanes have not met before they put", "E1", stale, of_lanes,
            {.what = verbs::sync_warp, .how = lost}),
      wrong("puts are counted before they are made", "C1", stale, blocks,
            {.what = verbs::put, .how = late, .until = verbs::add}),
      wrong("counting at block scope", "C1", {verdict::scope_race, verdict::data_race}, blocks,
            {.what = verbs::add, .how = narrow, .cell = "finished"}),
      wrong("counting does not release", "C1", stale, blocks,
            {.what = verbs::add, .how = without_release, .cell = "finished"}),
      wrong("a word within the group is stored at device scope", "E1", {verdict::scope_race}, pairs,
            {.what = verbs::release_store, .how = narrow, .cell = words_of_ranks}),
      wrong("a word beyond the group is stored as if within it", "E1", stale, apart,
            {.what = verbs::signal, .how = own, .cell = words_of_ranks}),
      wrong("a word beyond the group is awaited at device scope", "E1", {verdict::scope_race}, apart,
            {.what = verbs::wait, .how = narrow, .cell = words_of_ranks}),
      exchange_mutant("both phases put from one send buffer", "S1", stale, one_buffer),
      exchange_mutant("dispatch follows dispatch, no combine between", "S1",
                      {verdict::data_race, verdict::deadlock}, no_combine),
      wrong("each message is put from the place of the next", "Start",
            {verdict::data_race, verdict::broken_promise, verdict::outside_memory}, apart,
            {.what = verbs::put, .how = moved, .by = 16}),
  };
}

}  // namespace

protocol_check exchange_groups_check() {
  std::vector<std::string> headers = exchange_headers();
  headers.insert(headers.begin() + 4, "src/protocol/peer_window.hpp");
  protocol_check c{.name = "exchange_groups",
                   .title = "Dispatch and combine beyond the p2p group: puts, fences and signals",
                   .headers = headers,
                   .explorations = {},
                   .mutants = {}};
  for (const arrival_policy policy : {arrival_policy::epoch, arrival_policy::sentinel}) {
    add_rounds_of_groups(c.explorations, policy);
    add_failures_of_groups(c.explorations, policy);
    const std::vector<mutant> mutants = mutants_of_groups(policy);
    c.mutants.insert(c.mutants.end(), mutants.begin(), mutants.end());
  }
  return c;
}

}  // namespace baton::checks
