#include "checks/exchange_exploration.hpp"

#include "checks/exchange_rank.hpp"

namespace baton::checks {
namespace {

/// One warp, to its end or its death.
template <class Arrival>
void live(const check::context& x, check::program& p, const exchange_setting& e, exchange_world& w) {
  exchange_context mine{x, p, e, w};
  try {
    exchange_rank<Arrival>{mine, p, e, w}.run();
    if (e.tally != nullptr) e.tally->longest_life = std::max(e.tally->longest_life, mine.steps());
  } catch (const rank_died&) {
    if (e.tally != nullptr) e.tally->died_at.insert(mine.steps());
  }
  if (w.network) w.network->end(x);
}

}  // namespace

check::result check_exchange(const exchange_setting& e, check::bounds limits) {
  limits.may_time_out = exchange_context::may_time_out;
  return check::explore(limits, [&](check::program& p) {
    const auto world = make_exchange_world(p, e);
    p.shared_memory(exchange_shared_bytes);
    for (int rank = 0; rank < e.ranks; ++rank) {
      const int warps = e.of_rank(e.warps, rank);
      for (int i = 0; i < e.of_rank(e.blocks, rank) * warps; ++i) {
        p.spawn(rank, i / warps, i % warps, [world, &p, &e](const check::context& x) {
          if (e.policy == arrival_policy::epoch)
            live<epoch_arrival>(x, p, e, *world);
          else
            live<sentinel_arrival>(x, p, e, *world);
        });
      }
      if (world->network) add_carriers(p, *world, e, rank);
    }
  });
}

}  // namespace baton::checks
