// The exchange after some rank gave up: all ranks create a communicator anew, as baton::stuck asks for, and go on.
//
// The library's way: new memory, zeroed before its owner tells the others where it is, then the sentinels, then
// everybody waits until everybody is ready. Ranks that are late may still send into the old memory: it stays mapped
// until the last rank lets go of it. Rejoining in the old memory, which the library does not do, needs a meeting
// before anything is put back: the time-out has removed what kept a slow rank's buffers safe.
#include "checks/exchange_protocols.hpp"

namespace baton::checks {
namespace {

using check::verdict;

void add_explorations(std::vector<exploration>& to, arrival_policy policy) {
  const auto holds = [&](const char* name, exchange_setting e) {
    e.policy = policy;
    to.push_back(exchange_holds(name, e));
  };
  constexpr comeback anew{.happens = true}, in_place{.happens = true, .in_place = true};
  holds("2 ranks, 1 round, then a new communicator and 1 more",
        {.rounds = 1, .gives_up = {at_arrivals}, .then = anew});
  holds("2 ranks, 3 rounds, then a new communicator and 3 more", {.gives_up = {at_arrivals}, .then = anew});
  holds("2 ranks, 3 rounds, rank 1 late, then a new communicator and 3 more",
        {.gives_up = {at_arrivals}, .late = 1, .then = anew});
  holds("3 ranks, 3 rounds, then a new communicator and 3 more",
        {.ranks = 3, .experts = 3, .gives_up = {at_arrivals}, .then = anew});
  holds("2 ranks, the first of 2 blocks, 1 round, then a new communicator and 1 more",
        {.blocks = {2, 1}, .tokens = {2}, .rounds = 1, .gives_up = {anywhere}, .then = anew});
  holds("2 ranks, 3 rounds, then everybody meets, then the old memory again and 3 more",
        {.gives_up = {at_arrivals}, .then = in_place});
}

std::vector<mutant> rejoin_mutants(arrival_policy policy) {
  const std::vector<verdict> wrong{verdict::data_race, verdict::broken_promise, verdict::unordered_stores};
  const auto killed = [&](const char* name, const char* breaks, const std::vector<verdict>& as, comeback how,
                          exchange_setting e = {.rounds = 1, .gives_up = {at_arrivals}}) {
    e.policy = policy;
    e.then = how;
    e.then.happens = true;
    return exchange_mutant(name, breaks, as, e);
  };
  std::vector<mutant> all{
      killed("the next round follows as if nothing had happened", "E2", wrong,
             {.in_place = true,
              .meets_first = false,
              .is_renewed = false,
              .gives_up_again = true,
              .meets_at_the_end = false}),
      killed("the old memory is put back before everybody has left", "E2", wrong,
             {.in_place = true, .meets_first = false}),
      killed("the old memory is put back, nobody waits for anybody", "E2", wrong,
             {.in_place = true, .meets_first = false, .gives_up_again = true, .meets_at_the_end = false}),
      killed("ranks send before everybody has put the old memory back", "Start", wrong,
             {.in_place = true, .meets_at_the_end = false})};
  if (policy == arrival_policy::epoch) {
    all.push_back(killed("rounds are counted from 1 again, on old words", "Start", wrong,
                         {.in_place = true, .renews_words = false}));
  } else {
    all.push_back(killed("ranks send before everybody's sentinels are ready", "Start", wrong,
                         {.meets_at_the_end = false}));
  }
  return all;
}

}  // namespace

protocol_check exchange_rejoin_check() {
  protocol_check c{.name = "exchange_rejoin",
                   .title = "A new communicator after some rank gave up",
                   .headers = exchange_headers(),
                   .explorations = {},
                   .mutants = {}};
  for (const arrival_policy policy : {arrival_policy::epoch, arrival_policy::sentinel}) {
    add_explorations(c.explorations, policy);
    for (const mutant& m : rejoin_mutants(policy)) c.mutants.push_back(m);
  }
  return c;
}

}  // namespace baton::checks
