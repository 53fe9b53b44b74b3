#include "sim/check/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "baton/error.hpp"

namespace baton::check {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

search::search(const bounds& limits, const builder& build)
    : limits_{limits},
      build_{build},
      shop_{limits.fault},
      random_{limits.seed},
      start_{std::chrono::steady_clock::now()} {
  constexpr int most_steps = 30'000;  // ticks have 16 bits, and a step may be followed by a fence
  if (limits_.max_steps < 1 || limits_.max_steps > most_steps) {
    throw invalid_argument(
        fmt::format("check::bounds::max_steps: expected 1 to {}; found {}", most_steps, limits_.max_steps));
  }
  if (limits_.max_preemptions >= 0) limits_.how = reduction::none;
}

result search::run() {
  for (;;) {
    if (limits_.how == reduction::random)
      wander();
    else
      execute();
    if (result_.found != verdict::none && result_.violations == 1 && result_.counterexample.empty())
      confirm();
    if (result_.found != verdict::none && limits_.stop_at_first) break;
    if (limits_.how != reduction::random && !backtrack()) {
      result_.complete = true;
      break;
    }
    if (out_of_budget()) break;
  }
  result_.seconds = seconds_since(start_);
  return result_;
}

bool search::out_of_budget() const {
  return result_.executions + result_.cut >= limits_.max_executions ||
         seconds_since(start_) > limits_.max_seconds;
}

/// A schedule of its own: nothing is kept of the one before.
void search::wander() {
  path_.clear();
  execute();
}

void search::execute() {
  const bool first = limits_.keep_trace && result_.executions + result_.cut == 0;
  std::vector<event> trace;
  execution run{shop_, limits_, build_, first ? &trace : nullptr};
  explore_from(run);
  if (first) result_.trace = readable(trace, shop_.names);
}

void search::explore_from(execution& run) {
  for (std::size_t depth = 0;; ++depth) {
    if (shop_.found.any()) {
      ++result_.executions;
      return violation();
    }
    if (depth == path_.size() && !extend(run)) return;
    node& n = path_[depth];
    if (n.num_choices == 0) {
      n.num_choices = run.choices(n.warp, n.newer_than);
      if (limits_.how == reduction::random)
        n.choice = static_cast<int>(random_() % static_cast<unsigned>(n.num_choices));
    }
    last_step_ = run.pending(n.warp);
    last_word_ = run.pending_word(n.warp);
    run.step(n.warp, n.choice, n.newer_than);
    causes_.resize(depth + 1);
    causes_[depth] = run.step_causes();
    ++result_.steps;
    result_.longest = std::max(result_.longest, static_cast<int>(depth) + 1);
  }
}

/// Adds the state just reached to the path and chooses its first step. False if the execution ends here.
bool search::extend(execution& run) {
  const execution::standing now = run.survey();
  if (now.unfinished == 0) {
    run.finish();
    ++result_.executions;
    if (shop_.found.any()) violation();
    return false;
  }
  if (now.certain == 0 || static_cast<int>(path_.size()) >= limits_.max_steps) {
    ++result_.executions;
    if (now.certain != 0) {
      shop_.found.add(verdict::too_long,
                      fmt::format("an execution has more than {} steps", limits_.max_steps));
    } else if (limits_.fault != planted_fault::blind_to_deadlock) {
      run.report_deadlock();
    }
    if (shop_.found.any()) violation();
    return false;
  }
  if (limits_.how == reduction::dpor) plan_reversals(run, now.unfinished);
  node n = fresh_node(run, now);
  const int first = first_try(run, n);
  if (first < 0) {
    ++result_.cut;
    return false;
  }
  n.backtrack = limits_.how == reduction::dpor ? only(first) : n.enabled;
  choose(n, first);
  path_.push_back(n);
  return true;
}

search::node search::fresh_node(execution& run, const execution::standing& now) {
  node n;
  n.enabled = now.enabled;
  n.certain = now.certain;
  n.asleep.fill(awake);
  if (!path_.empty()) {
    const node& parent = path_.back();
    n.last = parent.warp;
    const bool switched =
        parent.last >= 0 && parent.warp != parent.last && (parent.enabled & only(parent.last)) != 0;
    n.preemptions = parent.preemptions + (switched ? 1 : 0);
    if (limits_.how != reduction::none) inherit_sleep(run, n);
  }
  for (int w = 0; w < run.num_warps(); ++w) {
    if ((n.enabled & only(w)) != 0 && worth_trying(run, n, w)) n.available |= only(w);
  }
  return n;
}

/// A warp that slept goes on sleeping, unless it wants to store to the word that the step has just stored to.
void search::inherit_sleep(execution& run, node& n) const {
  const node& parent = path_.back();
  for (int w = 0; w < run.num_warps(); ++w) {
    const std::int16_t since = parent.asleep[static_cast<std::size_t>(w)];
    if (since == awake || w == parent.warp) continue;
    if (!is_overtaken(run, w)) n.asleep[static_cast<std::size_t>(w)] = since;
  }
}

/// The step just taken changes what the sleeper's store does.
bool search::is_overtaken(execution& run, int sleeper) const {
  const operation& op = run.pending(sleeper);
  if (!is_write(last_step_.what) || !is_write(op.what) || run.pending_word(sleeper) != last_word_)
    return false;
  if (limits_.fault == planted_fault::sleepers_never_wake) return false;
  if (is_arrival(last_step_.what) && is_arrival(op.what)) return false;
  if (last_step_.what != verb::count_to || op.what != verb::count_to) return true;
  const auto& messages = run.word(last_word_).messages;
  const std::uint64_t before = messages[messages.size() - 2].value;
  return run.would_complete(sleeper) || !messages.back().short_of_target || before + op.value == op.target;
}

bool search::worth_trying(execution& run, const node& n, int warp) const {
  const int since = n.asleep[static_cast<std::size_t>(warp)];
  return since == awake || (!is_write(run.pending(warp).what) && run.choices(warp, since) > 0);
}

bool search::within_preemptions(const node& n, int warp) const {
  const bool switches = n.last >= 0 && warp != n.last && (n.enabled & only(n.last)) != 0;
  return limits_.max_preemptions < 0 || n.preemptions + (switches ? 1 : 0) <= limits_.max_preemptions;
}

/// Stores first: a load that comes after them can still return what was there before. A wait that only an old value
/// would end comes last: nothing orders it against steps of others on other words, and it may have missed that value.
int search::first_try(execution& run, const node& n) {
  if (limits_.how == reduction::random) {
    auto skip = random_() % static_cast<unsigned>(std::popcount(n.enabled));
    warp_set rest = n.enabled;
    for (; skip > 0; --skip) rest &= rest - 1;
    return std::countr_zero(rest);
  }
  int best = -1, best_rank = -1;
  for (int w = 0; w < run.num_warps(); ++w) {
    if ((n.available & only(w)) == 0 || !within_preemptions(n, w)) continue;
    const int rank = ((n.certain & only(w)) != 0 ? 4 : 0) + (is_write(run.pending(w).what) ? 2 : 0) +
                     (w == n.last ? 1 : 0);
    if (rank > best_rank) {
      best = w;
      best_rank = rank;
    }
  }
  return best;
}

void search::choose(node& n, int warp) {
  n.warp = warp;
  n.choice = 0;
  n.num_choices = 0;  // counted when the execution gets there
  n.newer_than = n.asleep[static_cast<std::size_t>(warp)];
}

/// The next thing to try in this state; false if all is done.
bool search::take_next(node& n) {
  if (n.choice + 1 < n.num_choices) {
    ++n.choice;
    return true;
  }
  n.done |= only(n.warp);
  const auto depth = static_cast<std::int16_t>(path_.size() - 1);
  const bool sleeps = limits_.how == reduction::sleep || limits_.how == reduction::dpor;
  if (sleeps) n.asleep[static_cast<std::size_t>(n.warp)] = depth;
  for (warp_set todo = n.backtrack & n.available & ~n.done; todo != 0; todo &= todo - 1) {
    const int warp = std::countr_zero(todo);
    if (!within_preemptions(n, warp)) continue;
    choose(n, warp);
    return true;
  }
  return false;
}

bool search::backtrack() {
  while (!path_.empty() && !take_next(path_.back())) path_.pop_back();
  return !path_.empty();
}

void search::violation() {
  ++result_.violations;
  if (result_.found != verdict::none) return;
  result_.found = shop_.found.what();
  result_.text = shop_.found.text();
}

/// Runs the schedule again, writing it down.
void search::confirm() {
  std::vector<event> trace;
  execution run{shop_, limits_, build_, &trace};
  for (const node& n : path_) {
    if (shop_.found.any()) break;
    if (((run.survey().enabled & only(n.warp))) == 0) break;
    run.step(n.warp, n.choice, n.newer_than);
  }
  if (!shop_.found.any()) {
    const execution::standing now = run.survey();
    if (now.unfinished == 0)
      run.finish();
    else if (now.certain == 0)
      run.report_deadlock();
    else if (static_cast<int>(path_.size()) >= limits_.max_steps)
      shop_.found.add(result_.found, result_.text);
  }
  result_.counterexample = readable(trace, shop_.names);
  if (shop_.found.lacks_an_edge()) result_.counterexample += missing_edge(trace, shop_.names);
  if (shop_.found.text() == result_.text) return;
  result_.found = verdict::not_reproducible;
  result_.text = fmt::format(
      "the same schedule first gave \"{}\", then \"{}\": build must renew all state that the "
      "warps change",
      result_.text, shop_.found.text());
}

}  // namespace baton::check
