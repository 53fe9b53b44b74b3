#pragma once
// How far an exploration goes, and what it found.
#include <cstdint>
#include <functional>
#include <string>

#include "exec/wait.hpp"
#include "sim/check/findings.hpp"
#include "sim/check/planted_fault.hpp"

namespace baton::check {

/// Which schedules are skipped because another one shows the same.
enum class reduction : std::uint8_t {
  none,    // every interleaving of atomic operations
  sleep,   // sleep sets: no two executions that differ by swapping independent steps
  dpor,    // dynamic partial-order reduction with sleep sets: also skips starting them
  random,  // `max_executions` schedules at random, by `seed`: never complete
};

struct bounds {
  reduction how = reduction::dpor;
  /// At most this many switches away from a warp that could go on; -1: any. Implies reduction::none, because a
  /// preemption bound and partial-order reduction together would skip schedules inside the bound.
  int max_preemptions = -1;
  std::uint64_t seed = 1;
  int max_steps = 20'000;  // scheduling points of one execution
  std::uint64_t max_executions = 10'000'000;
  double max_seconds = 300;
  bool stop_at_first = true;
  /// Waits that may return false at any moment at which a value can be read that does not end them, as if their
  /// deadline had passed.
  std::function<bool(const wait_site&)> may_time_out{};
  /// Blocks of a rank that there is room for; the others begin in order, each when one has ended. 0: all.
  int resident_blocks = 0;
  /// What a load_lines may show: 0: every way; 2: all lines as new as can be, or another way, which is drawn; 1: a way that
  /// is drawn.
  int looks = 0;
  bool keep_trace = false;  // also where nothing is wrong: the first execution's
  planted_fault fault = planted_fault::none;
};

struct result {
  bool complete = false;  // all schedules within the bounds were covered
  verdict found = verdict::none;
  std::string text;              // the first finding in one line
  std::string counterexample;    // the schedule that leads to it, one line a step
  std::string trace;             // bounds::keep_trace: the first schedule explored, one line a step
  std::uint64_t executions = 0;  // run to their end
  std::uint64_t cut = 0;         // abandoned as equivalent to another one
  std::uint64_t violations = 0;
  std::uint64_t steps = 0;
  int longest = 0;  // steps of the longest execution
  double seconds = 0;

  bool holds() const { return complete && found == verdict::none; }
  /// One line: the verdict, how many executions and steps, how fast.
  std::string summary() const;
};

}  // namespace baton::check
