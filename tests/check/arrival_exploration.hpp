#pragma once
// The rounds of arrival_rounds.hpp in every schedule.
#include "sim/check.hpp"
#include "tests/check/arrival_rounds.hpp"
#include "tests/check/weakened_context.hpp"

namespace baton {

struct arrival_setting {
  int ranks = 2;
  int rounds = 3;
  round_fault fault = round_fault::none;
};

template <class Policy, weakening Weakening = weakening::none>
check::result check_arrival(const arrival_setting& s, check::bounds limits = {}) {
  using mutant = weakened<check::context, Weakening>;
  return check::explore(limits, [&](check::program& p) {
    const arrival_world w = make_world<Policy>(p, s.ranks);
    for (int rank = 0; rank < s.ranks; ++rank) {
      p.spawn(rank, 0, 0, [w, &p, &s](check::context& x) {
        mutant mine{x};
        const auto require = [&p](bool holds, const char* what) { p.require(holds, what); };
        arrival_rank<Policy, mutant>{mine, w, s.fault, require}.run(s.rounds);
      });
    }
  });
}

}  // namespace baton
