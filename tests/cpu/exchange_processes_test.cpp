#include "tests/support/exchange_processes.hpp"

#include <sys/resource.h>

#include <fstream>

#include "baton/error.hpp"

namespace baton::test {
namespace {

TEST(exchange_processes, ranks_in_processes_of_their_own_exchange_through_shared_memory) {
  for (const int ranks : {2, 3}) expect_conformance_of_processes(ranks, device_kind::cpu, 2);
}

TEST(exchange_processes, survivors_of_a_killed_process_return_and_name_it) {
  const exchange_case c{2, sizes(8, 2, 64, 6), {6, 6}, routing::distinct};
  const int port = 40000 + static_cast<int>(::getpid() % 20000);
  const auto results = in_processes({0, 1}, [&](int rank) -> bool {
    set_launch_environment(rank, 2, port);
    ::setenv("BATON_DEADLINE_MS", "500", 1);
    exchange_rank mine{expert_parallel::create(world::from_environment(device_kind::cpu), c.config)};
    if (const std::string wrong = run_rank(c, mine, 1); !wrong.empty()) throw std::runtime_error{wrong};
    if (rank == 1) ::kill(::getpid(), SIGKILL);
    try {
      run_rank(c, mine, 1);
    } catch (const stuck& e) {
      return e.where.peer == 1 && e.where.site == "dispatch.arrival" && e.where.epoch == 2;
    }
    return false;
  });
  EXPECT_EQ(results[0].exit_code, 0) << results[0].thrown;
  EXPECT_EQ(results[1].exit_code, 128 + SIGKILL);
}

TEST(exchange_processes, layout_per_rank_exchanges_through_shared_memory_and_names_a_killed_process) {
  exchange_case c{2, sizes(8, 2, 64, 6), {6, 6}, routing::distinct};
  c.config.layout = ep_layout::per_rank;
  for (const ep_transfer transfer : {ep_transfer::lines, ep_transfer::chunks}) {
    c.config.transfer = transfer;
    const int port = 40000 + static_cast<int>((::getpid() + 7 + static_cast<int>(transfer)) % 20000);
    const auto results = in_processes({0, 1}, [&](int rank) -> bool {
      set_launch_environment(rank, 2, port);
      ::setenv("BATON_DEADLINE_MS", "500", 1);
      exchange_rank mine{expert_parallel::create(world::from_environment(device_kind::cpu), c.config)};
      if (const std::string wrong = run_rank(c, mine, 3); !wrong.empty()) throw std::runtime_error{wrong};
      if (rank == 1) ::kill(::getpid(), SIGKILL);
      try {
        run_rank(c, mine, 1);
      } catch (const stuck& e) {
        return e.where.peer == 1 && e.where.site == "dispatch.ids" && e.where.epoch == 4;
      }
      return false;
    });
    EXPECT_EQ(results[0].exit_code, 0) << results[0].thrown;
    EXPECT_EQ(results[1].exit_code, 128 + SIGKILL);
  }
}

TEST(exchange_processes, a_rank_that_cannot_allocate_tells_the_others_at_once) {
  const exchange_case c{2, sizes(2, 1, 8192, 512), {}, routing::distinct};
  const int port = 40000 + static_cast<int>(::getpid() % 20000);
  const auto results = in_processes({0, 1}, [&](int rank) -> bool {
    set_launch_environment(rank, 2, port);
    const world w = world::from_environment(device_kind::cpu);
    if (rank == 1) {
      std::size_t pages = 0;
      std::ifstream{"/proc/self/statm"} >> pages;
      const rlim_t most = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + (4u << 20);
      const rlimit limit{most, most};
      ::setrlimit(RLIMIT_AS, &limit);
    }
    try {
      expert_parallel::create(w, c.config);
      return false;
    } catch (const out_of_memory& e) {
      char ends[2];
      w.all_gather("e", ends, 1);  // this world still works: it is not its end that the others hear of
      throw;
    }
  });
  EXPECT_NE(results[0].thrown.find("rank 1: host memory for"), std::string::npos) << results[0].thrown;
  EXPECT_NE(results[1].thrown.find("host memory for"), std::string::npos) << results[1].thrown;
}

}  // namespace
}  // namespace baton::test
