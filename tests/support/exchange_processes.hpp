#pragma once
// The exchange with one process a rank, as a launcher starts them.
#include <functional>
#include <numeric>

#include "tests/support/exchange_cases.hpp"
#include "tests/support/forked_ranks.hpp"

namespace baton::test {

/// One rank's part of `rounds` rounds; every process draws all inputs and checks its own results.
inline std::string run_rank(const exchange_case& c, exchange_rank& mine, int rounds) {
  const int r = mine.ranks().rank();
  for (int round = 1; round <= rounds; ++round) {
    const auto inputs = draw_inputs(c, static_cast<std::uint64_t>(round));
    const expected_round expected{c, inputs};
    mine.load(inputs[static_cast<std::size_t>(r)]);
    mine.dispatch_async();
    mine.dispatch_wait();
    const received_copy got = mine.read_received();
    std::string wrong = difference(expected, r, got);
    if (!wrong.empty()) return fmt::format("round {}: {}", round, wrong);
    mine.reply(got);
    mine.combine_wait();
    wrong = difference(expected_output(expected, r), mine.read_output());
    if (!wrong.empty()) return fmt::format("round {}: {}", round, wrong);
  }
  return {};
}

/// Forks `size` ranks that run every conformance case. Call before this process has threads or a CUDA context.
inline void expect_conformance_of_processes(int size, device_kind device, int rounds, int scale = 1) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  for (int r = 0; r < size; ++r) ranks[static_cast<std::size_t>(r)] = r;
  const std::string run = unique_name();
  const auto results = in_processes(ranks, [&](int rank) -> bool {
    set_launch_environment(rank, size, run);
    const world w = world::from_environment(device);
    for (const named_case& c : conformance_cases(size, scale)) {
      for (const auto format : {token_format::bf16, token_format::blockwise_fp8}) {
        const exchange_case what = with(c.what, format, arrival_policy::epoch);
        exchange_rank mine{expert_parallel::create(w, what.config)};
        const std::string wrong = run_rank(what, mine, rounds);
        if (!wrong.empty()) throw std::runtime_error{fmt::format("{}: {}", c.name, wrong)};
      }
    }
    return true;
  });
  for (std::size_t r = 0; r < results.size(); ++r)
    EXPECT_EQ(results[r].exit_code, 0) << "rank " << r << ": " << results[r].thrown;
}

/// Worlds of three processes side by side, as they mostly wait: work(which world, rank, the name of its job). All have to be
/// started well within the deadline, however busy the machine is.
inline std::vector<rank_result> in_worlds_of_three(
    int deadline_ms, int worlds, const std::function<bool(int, int, const std::string& run)>& work) {
  std::vector<int> all(static_cast<std::size_t>(3 * worlds));
  std::iota(all.begin(), all.end(), 0);
  const std::string run = unique_name();
  return in_processes(all, [&](int nth) {
    ::setenv("BATON_DEADLINE_MS", std::to_string(deadline_ms).c_str(), 1);
    return work(nth / 3, nth % 3, run + "-" + std::to_string(nth / 3));
  });
}

/// In a child, whose result is an exit code and the text of what it threw.
inline void expect_no_error(const std::string& wrong) {
  if (!wrong.empty()) throw std::runtime_error{wrong};
}

}  // namespace baton::test
