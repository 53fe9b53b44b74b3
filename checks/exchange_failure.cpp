// The exchange when something goes wrong: ranks that give up, a rank that is late, a rank that dies at any step.
//
// What must hold: no race; a rank that does not give up has every token back exactly; a kernel that begins after
// its rank gave up touches nothing; nobody waits for ever but at waits that have a deadline.
#include "checks/exchange_protocols.hpp"

namespace baton::checks {
namespace {

using check::verdict;

void add_time_outs(std::vector<exploration>& to, arrival_policy policy) {
  const auto holds = [&](const char* name, exchange_setting e) {
    e.policy = policy;
    to.push_back(exchange_holds(name, e));
  };
  holds("2 ranks, 1 round, every wait may give up", {.rounds = 1, .gives_up = {anywhere}});
  holds("2 ranks, 3 rounds, every wait may give up", {.gives_up = {anywhere}});
  holds("3 ranks, 3 rounds, every wait may give up", {.ranks = 3, .experts = 3, .gives_up = {anywhere}});
  holds("2 ranks, the first of 2 blocks, 3 rounds, every wait may give up",
        {.blocks = {2, 1}, .tokens = {2}, .gives_up = {anywhere}});
  holds("2 ranks, blocks of 2 warps, 2 rounds, every wait may give up",
        {.warps = {2}, .tokens = {2}, .rounds = 2, .gives_up = {anywhere}});
  holds("2 ranks, the first of 2 blocks of 2 warps, 1 round, every wait may give up",
        {.blocks = {2, 1}, .warps = {2}, .tokens = {2}, .rounds = 1, .gives_up = {anywhere}});
  holds("2 ranks, blocks of 2 warps, which share a token, 2 rounds, every wait may give up",
        {.warps = {2}, .hidden = 264, .rounds = 2, .gives_up = {anywhere}});
  holds("2 ranks of 2 blocks, 1 round, every wait may give up",
        {.blocks = {2}, .tokens = {2}, .rounds = 1, .gives_up = {anywhere}});
  holds("2 ranks, the first of 2 blocks of 2 warps, 2 rounds, every wait may give up",
        {.blocks = {2, 1}, .warps = {2}, .tokens = {2}, .rounds = 2, .gives_up = {anywhere}});
  holds("2 ranks, the first of 3 blocks, 1 round, every wait may give up",
        {.blocks = {3, 1}, .tokens = {3}, .rounds = 1, .gives_up = {anywhere}});
  to.push_back(collection_holds("2 warps collect arrivals, both may give up", policy));
  holds("2 ranks, 3 rounds, rank 1 begins when rank 0 has given up", {.gives_up = {at_arrivals}, .late = 1});
  holds("2 ranks, 3 rounds, rank 1 comes to round 2 when rank 0 has given up",
        {.gives_up = {at_arrivals}, .late = 1, .late_round = 1});
  holds("3 ranks, 2 rounds, rank 2 begins when another one has given up",
        {.ranks = 3, .experts = 3, .rounds = 2, .gives_up = {at_arrivals}, .late = 2});
}

void add_deaths(std::vector<exploration>& to, arrival_policy policy) {
  const auto holds = [&](const char* name, exchange_setting e) {
    e.policy = policy;
    to.push_back(exchange_holds(name, e));
  };
  holds("2 ranks, 3 rounds, rank 1 dies at any step", {.gives_up = {at_arrivals}, .dies = 1});
  holds("2 ranks of 2 experts, top 2, 2 rounds, rank 0 dies at any step",
        {.experts = 4, .top_k = 2, .tokens = {2}, .rounds = 2, .gives_up = {at_arrivals}, .dies = 0});
  holds("2 ranks, 2 rounds, all tokens to rank 0, which dies at any step",
        {.tokens = {1, 2}, .route = routing::one_expert, .rounds = 2, .gives_up = {at_arrivals}, .dies = 0});
  holds("3 ranks, 3 rounds, rank 1 dies at any step",
        {.ranks = 3, .experts = 3, .gives_up = {at_arrivals}, .dies = 1});
  holds("2 ranks, 2 rounds, rank 0 of 2 blocks dies at any steps of theirs",
        {.blocks = {2, 1}, .tokens = {2}, .rounds = 2, .gives_up = {at_arrivals}, .dies = 0});
  holds("2 ranks, 2 rounds, rank 1 dies at any step, rank 0 has 2 blocks",
        {.blocks = {2, 1}, .tokens = {2}, .rounds = 2, .gives_up = {anywhere, at_arrivals}, .dies = 1});
}

std::vector<mutant> failure_mutants(arrival_policy policy) {
  using enum change;
  constexpr verbs looks = verbs::has_given_up, waits = verbs::wait;
  const std::vector<verdict> wrong{verdict::data_race, verdict::broken_promise, verdict::outside_memory};
  const auto killed = [&](const char* name, const char* breaks, const std::vector<verdict>& as,
                          const planted_bug& bug, exchange_setting e) {
    e.policy = policy;
    e.bug = bug;
    return exchange_mutant(name, breaks, as, e);
  };
  const exchange_setting two{.rounds = 2, .gives_up = {anywhere}};
  const exchange_setting blocks{.blocks = {2, 1}, .tokens = {2}, .rounds = 1, .gives_up = {anywhere}};
  const exchange_setting death{.rounds = 2, .gives_up = {at_arrivals}, .dies = 1};
  const planted_bug silence{.what = waits, .how = taken_for_success};
  return {killed("kernels do not look whether their rank gave up", "Progress", wrong,
                 {.what = looks, .how = lost}, two),
          killed("dispatch_wait does not look whether its rank gave up", "Progress", wrong,
                 {.what = looks, .how = lost, .where = "dispatch_wait"}, two),
          killed("combine_wait does not look whether its rank gave up", "Progress", wrong,
                 {.what = looks, .how = lost, .where = "combine_wait"}, two),
          killed("only the block whose wait gave up knows", "Progress", wrong, {.what = looks, .how = own},
                 blocks),
          killed("a wait that gave up counts as arrived", "E1", wrong, silence, two),
          killed("the gate has no deadline", "Progress", {verdict::deadlock},
                 {.what = waits, .how = endless, .cell = "offsets ready, combine ready"}, blocks),
          killed("a rank that falls silent counts as empty", "E1", wrong, silence, death),
          killed("payload is written after its word, and the rank dies between", "E1", wrong,
                 payload_after_word, death)};
}

}  // namespace

protocol_check exchange_failure_check() {
  protocol_check c{.name = "exchange_failure",
                   .title = "Dispatch and combine when ranks give up, are late, or die",
                   .headers = exchange_headers(),
                   .explorations = {},
                   .mutants = {}};
  for (const arrival_policy policy : {arrival_policy::epoch, arrival_policy::sentinel}) {
    add_time_outs(c.explorations, policy);
    add_deaths(c.explorations, policy);
    for (const mutant& m : failure_mutants(policy)) c.mutants.push_back(m);
  }
  return c;
}

}  // namespace baton::checks
