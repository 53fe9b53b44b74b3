#pragma once
// A process that is killed in the middle of a round, with ranks beyond the p2p group, however these are reached.
#include <sys/time.h>

#include <chrono>
#include <csignal>
#include <cstdlib>

#include "baton/error.hpp"
#include "tests/support/exchange_processes.hpp"

namespace baton::test {

struct way_beyond {
  ep_layout layout;
  ep_levels levels;
  int group;

  exchange_case of(exchange_case c) const {
    c.config.layout = layout;
    c.config.levels = levels;
    c.config.p2p_group_size = group;
    return c;
  }
  std::string name() const {
    return fmt::format("{}{}_in_groups_of_{}", layout == ep_layout::per_expert ? "per_expert" : "per_rank",
                       levels == ep_levels::two ? "_with_two_levels" : "", group);
  }
};

inline constexpr way_beyond every_way_beyond[] = {{ep_layout::per_expert, ep_levels::one, 1},
                                                  {ep_layout::per_expert, ep_levels::one, 2},
                                                  {ep_layout::per_rank, ep_levels::one, 1},
                                                  {ep_layout::per_rank, ep_levels::one, 2},
                                                  {ep_layout::per_rank, ep_levels::two, 2}};

/// Rounds until one is stuck, or two seconds have passed: whom it names; -2: nobody.
inline int named_in_rounds(const exchange_case& c, exchange_rank& mine) {
  mine.load(draw_inputs(c, 1)[static_cast<std::size_t>(mine.ranks().rank())]);
  const device_buffer<bfloat16> replies{mine.ranks(), static_cast<std::size_t>(mine.ep().room().max_rows) *
                                                          static_cast<std::size_t>(c.config.hidden)};
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds{2};
  try {
    while (std::chrono::steady_clock::now() < end) {
      mine.dispatch_async();
      mine.dispatch_wait();
      mine.combine_async(replies.data());
      mine.combine_wait();
      mine.ranks().synchronize();
    }
  } catch (const stuck& e) {
    return e.where.peer;
  }
  return -2;
}

/// A timer kills the rank `after` its first rounds, wherever it is then.
inline void expect_the_killed_named_in_rounds(const exchange_case& c, device_kind device, int killed,
                                              std::chrono::microseconds after) {
  ::setenv("BATON_DEADLINE_MS", device == device_kind::cuda ? "3000" : "700",
           1);  // ranks meet within it, too
  std::vector<int> exit_codes(static_cast<std::size_t>(c.ranks), 7);
  exit_codes[static_cast<std::size_t>(killed)] = 128 + SIGALRM;
  expect_of_processes(
      c.ranks, device,
      [&](const world& w) {
        exchange_rank mine{expert_parallel::create(w, c.config)};
        expect_no_error(run_rank(c, mine, 1));
        w.synchronize();
        if (w.rank() == killed) {
          const itimerval once{{}, {0, static_cast<suseconds_t>(after.count())}};
          ::setitimer(ITIMER_REAL, &once, nullptr);
        }
        const int named = named_in_rounds(c, mine);
        if (named != killed) throw std::runtime_error{fmt::format("names rank {}", named)};
        std::_Exit(7);  // without NVSHMEM's ending, in which a dead rank could be waited for
        return false;
      },
      exit_codes);
  ::unsetenv("BATON_DEADLINE_MS");
}

}  // namespace baton::test
