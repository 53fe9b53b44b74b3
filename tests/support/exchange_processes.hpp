#pragma once
// The exchange with one process a rank, as a launcher starts them.
#include <functional>
#include <numeric>

#include "tests/support/exchange_cases.hpp"
#include "tests/support/forked_ranks.hpp"

namespace baton::test {

/// One rank's part of `rounds` rounds; every process draws all inputs and checks its own results.
inline std::string run_rank(const exchange_case& c, exchange_rank& mine, int rounds,
                            calls how = calls::apart) {
  const int r = mine.ranks().rank();
  for (int round = 1; round <= rounds; ++round) {
    const auto inputs = draw_inputs(c, static_cast<std::uint64_t>(round));
    const expected_round expected{c, inputs};
    mine.load(inputs[static_cast<std::size_t>(r)]);
    if (how == calls::fused) {
      mine.dispatch();
    } else {
      mine.dispatch_async();
      mine.dispatch_wait();
    }
    const received_copy got = mine.read_received();
    std::string wrong = difference(expected, r, got);
    if (!wrong.empty()) return fmt::format("round {}: {}", round, wrong);
    if (how == calls::fused) {
      mine.apply_experts(got);
      mine.combine();
    } else {
      mine.reply(got);
      mine.combine_wait();
    }
    wrong = difference(expected_output(expected, r), mine.read_output());
    if (!wrong.empty()) return fmt::format("round {}: {}", round, wrong);
  }
  return {};
}

/// Forks the ranks of a world, each of which works in it, and expects of each what `exit_codes` says, 0 if nothing. Call before
/// this process has threads or a CUDA context.
inline void expect_of_processes(int size, device_kind device, const std::function<bool(const world&)>& work,
                                const std::vector<int>& exit_codes = {}) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  const std::string run = unique_name();
  const auto results = in_processes(ranks, [&](int rank) {
    set_launch_environment(rank, size, run);
    return work(world::from_environment(device));
  });
  for (std::size_t r = 0; r < results.size(); ++r)
    EXPECT_EQ(results[r].exit_code, exit_codes.empty() ? 0 : exit_codes[r])
        << "rank " << r << ": " << results[r].thrown;
}

/// Ranks in processes run every conformance case.
inline void expect_conformance_of_processes(int size, device_kind device, int rounds, int scale = 1) {
  expect_of_processes(size, device, [&](const world& w) {
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
