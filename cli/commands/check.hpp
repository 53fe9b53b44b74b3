#pragma once
// `baton check`: explores the library's protocols, and the bugs planted into them, and says what was found.
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "checks/protocol_check.hpp"

namespace baton::cli {

struct check_options {
  std::vector<std::string> protocols;  // by name; empty: all
  std::uint64_t bound = 0;             // most executions of an exploration; 0: each has its own
  double seconds = 0;                  // most time of an exploration; 0: each has its own
  std::optional<std::uint64_t>
      seed;              // random schedules instead of all of them, `bound` or random_schedules of them
  int jobs = 0;          // explorations at a time; 0: one a core
  bool list = false;     // says what there is, runs nothing
  bool mutants = false;  // shows each mutant, not only how many were killed
  bool trace = false;    // shows schedules: of what was found, and one of each protocol that holds
  bool json = false;
};

inline constexpr std::uint64_t random_schedules = 10'000;

/// Runs the explorations, then the mutants, of every chosen protocol, and prints each as it ends. A bound or a
/// seed given by the caller leaves explorations unfinished without failing them; mutants are always run until noticed.
/// Returns an exit_code: check_failed if something was found, was not covered within baton's own bounds, or if a mutant
/// was not noticed as it should be.
/// @throws invalid_argument  for a protocol that there is not, or a number out of range
int run_check(const check_options& options, const std::vector<checks::protocol_check>& protocols,
              std::ostream& out);

}  // namespace baton::cli
