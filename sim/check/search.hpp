#pragma once
// The search through all schedules: depth first, each execution replayed from the start.
//
// Two steps depend on each other if both store to one word, or if one reads a word that the other stores to
// later. A load before a store and the same load after it that still returns the older value end in the same
// state; so a store must be tried before an earlier load that did not see it, but never a load before an
// earlier store.
#include <array>
#include <chrono>
#include <cstdint>
#include <random>
#include <vector>

#include "sim/check/execution.hpp"

namespace baton::check {

class search {
 public:
  search(const bounds& limits, const builder& build);
  result run();

 private:
  static constexpr int awake = -1;

  /// A state on the current path and what was tried from it.
  struct node {
    warp_set enabled = 0;
    warp_set certain = 0;    // enabled even if every poll returns the newest value
    warp_set available = 0;  // enabled and not asleep
    warp_set backtrack = 0;  // must be tried
    warp_set done = 0;
    /// Since which step a warp sleeps: its next step, reading only messages older than that, was tried in an
    /// equivalent state.
    std::array<std::int16_t, max_participants> asleep{};
    int warp = -1;  // the step taken
    int choice = 0, num_choices = 0;
    int newer_than = awake;
    int last = -1;  // the warp that stepped before
    int preemptions = 0;
  };

  /// Runs one execution along the current path and beyond; extends the path.
  void execute();
  void wander();
  void explore_from(execution& run);
  bool extend(execution& run);
  node fresh_node(execution& run, const execution::standing& now);
  void inherit_sleep(execution& run, node& n) const;
  bool worth_trying(execution& run, const node& n, int warp) const;
  int first_try(execution& run, const node& n);
  bool take_next(node& n);
  bool within_preemptions(const node& n, int warp) const;
  void choose(node& n, int warp);

  void plan_reversals(execution& run, warp_set unfinished);
  void reverse_writes(execution& run, int warp, const atomic_word& word);
  void reverse(execution& run, int warp, int step);
  bool is_overtaken(execution& run, int sleeper) const;
  warp_set beginners_without(execution& run, int warp, int step) const;

  void violation();
  void confirm();
  bool backtrack();
  bool out_of_budget() const;

  bounds limits_;
  const builder& build_;
  workshop shop_;
  std::mt19937_64 random_;
  std::vector<node> path_;
  std::vector<vector_clock> causes_;  // of each step on the path: the steps it depends on
  operation last_step_;               // of the newest node's parent
  int last_word_ = -1;
  result result_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace baton::check
