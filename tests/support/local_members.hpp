#pragma once
// A communicator's ranks in threads of one process, some of which go on without others.
#include <exception>
#include <functional>
#include <span>
#include <thread>

#include "runtime/world_state.hpp"
#include "tests/support/member_rounds.hpp"

namespace baton::test {

/// All but layout per_expert.
inline constexpr std::span every_way_per_rank = std::span{every_travel}.subspan<1>();
static_assert(every_travel[0] == travel::by_expert);

/// What local_ranks::set and run return if all is right.
inline std::vector<std::string> nothing_wrong(int ranks) {
  return std::vector<std::string>(static_cast<std::size_t>(ranks));
}

struct local_ranks {
  explicit local_ranks(const exchange_case& of, std::chrono::milliseconds deadline = std::chrono::seconds{30})
      : local_ranks{of, world::local(of.ranks, device_kind::cpu), deadline} {}
  local_ranks(const exchange_case& of, const std::vector<world>& those,
              std::chrono::milliseconds deadline = std::chrono::seconds{30})
      : c{of}, worlds{those} {
    for (const world& w : worlds) w.state().deadline = deadline;
    for (expert_parallel& ep : expert_parallel::create_all(worlds, c.config))
      ranks.emplace_back(std::move(ep));
  }
  /// What the members throw or find wrong.
  std::vector<std::string> on_members(const ep_membership& members,
                                      const std::function<std::string(int)>& work) {
    std::vector<std::string> wrong(ranks.size());
    std::vector<std::thread> threads;
    for (int r = 0; r < c.ranks; ++r) {
      if (!members.has(r)) continue;
      threads.emplace_back([&, r] {
        try {
          wrong[static_cast<std::size_t>(r)] = work(r);
        } catch (const std::exception& e) {
          wrong[static_cast<std::size_t>(r)] = e.what();
        }
      });
    }
    for (std::thread& t : threads) t.join();
    return wrong;
  }
  exchange_rank& rank(int r) { return ranks[static_cast<std::size_t>(r)]; }
  std::vector<std::string> set(const ep_membership& members) {
    return on_members(members, [&](int r) {
      rank(r).ep().set_members(members);
      return rank(r).ep().members() == members ? "" : "it has other members";
    });
  }
  std::vector<std::string> run(const ep_membership& members, std::uint64_t seed, int rounds = 3) {
    const member_rounds all{c, members, seed, rounds};
    return on_members(members, [&](int r) { return run_member(all, rank(r)); });
  }
  exchange_case c;
  std::vector<world> worlds;
  std::vector<exchange_rank> ranks;
};

}  // namespace baton::test
