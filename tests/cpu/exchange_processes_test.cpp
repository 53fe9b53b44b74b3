#include "tests/support/exchange_processes.hpp"
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

}  // namespace
}  // namespace baton::test
