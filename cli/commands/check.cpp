#include "cli/commands/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "baton/error.hpp"
#include "cli/commands/check_report.hpp"
#include "cli/exit_code.hpp"
#include "cli/view/terminal.hpp"

namespace baton::cli {
namespace {

using checks::protocol_check;

void require(const check_options& o) {
  constexpr int most_jobs = 256;
  if (o.jobs < 0 || o.jobs > most_jobs)
    throw invalid_argument{fmt::format("--jobs: {} is not from 1 to {}; 0: one a core", o.jobs, most_jobs)};
}

std::vector<const protocol_check*> chosen(const check_options& o, const std::vector<protocol_check>& all) {
  std::vector<const protocol_check*> found;
  for (const std::string& wanted : o.protocols) {
    if (std::ranges::any_of(all, [&](const protocol_check& p) { return p.name == wanted; })) continue;
    std::string names;
    for (const protocol_check& p : all) names += (names.empty() ? "" : ", ") + p.name;
    throw invalid_argument{
        fmt::format("--protocol: there is none named \"{}\"; there are {}", wanted, names)};
  }
  for (const protocol_check& p : all) {
    if (o.protocols.empty() || std::ranges::find(o.protocols, p.name) != o.protocols.end())
      found.push_back(&p);
  }
  return found;
}

/// Everything there is to run, in the order of the report.
std::vector<check_run> runs_of(const std::vector<const protocol_check*>& protocols) {
  std::vector<check_run> runs;
  for (const protocol_check* p : protocols) {
    for (const checks::exploration& e : p->explorations) runs.push_back({p, &e, nullptr, {}});
    for (const checks::mutant& m : p->mutants) runs.push_back({p, nullptr, &m, {}});
  }
  return runs;
}

check::bounds bounds_of(const check_run& run, const check_options& o) {
  check::bounds limits;
  if (run.mutant != nullptr) return limits;
  limits.keep_trace = o.trace && run.exploration == &run.protocol->explorations.front();
  if (o.seed) {
    limits.how = check::reduction::random;
    limits.seed = *o.seed;
    limits.max_executions = random_schedules;
  }
  if (o.bound > 0) limits.max_executions = o.bound;
  if (o.seconds > 0) limits.max_seconds = o.seconds;
  return limits;
}

/// Runs several at a time, in order; the caller takes the results in order.
class workers {
 public:
  workers(std::vector<check_run>& runs, const check_options& o)
      : runs_{runs}, options_{o}, is_done_(runs.size(), false) {
    const auto cores = std::max(1u, std::thread::hardware_concurrency());
    const auto most = o.jobs > 0 ? static_cast<unsigned>(o.jobs) : cores;
    for (unsigned i = 0; i < most && i < runs.size(); ++i) try {
        threads_.emplace_back([this] { work(); });
      } catch (const std::system_error& e) {
        if (i > 0) return;  // fewer do the same work
        throw unsupported{fmt::format(
            "cannot start a thread: {}; raise the limits of processes (ulimit -u) or memory (ulimit -v)",
            e.what())};
      }
  }
  ~workers() { next_ = runs_.size(); }
  workers(const workers&) = delete;
  workers& operator=(const workers&) = delete;

  const check_run& await(std::size_t index) {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [&] { return is_done_[index] || failure_; });
    if (!is_done_[index]) std::rethrow_exception(failure_);
    return runs_[index];
  }

 private:
  void work() {
    for (;;) {
      const std::size_t index = next_++;
      if (index >= runs_.size()) return;
      std::exception_ptr failure;
      try {
        check_run& run = runs_[index];
        const check::bounds limits = bounds_of(run, options_);
        run.result = run.mutant != nullptr ? run.mutant->run(limits) : run.exploration->run(limits);
      } catch (...) {
        failure = std::current_exception();
      }
      const std::lock_guard lock{mutex_};
      if (failure)
        failure_ = failure;
      else
        is_done_[index] = true;
      changed_.notify_all();
    }
  }

  std::vector<check_run>& runs_;
  const check_options& options_;
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> is_done_;
  std::exception_ptr failure_;
  std::vector<std::jthread> threads_;  // the last member: they end before the rest
};

}  // namespace

int run_check(const check_options& o, const std::vector<protocol_check>& all, std::ostream& out) {
  require(o);
  const std::vector<const protocol_check*> protocols = chosen(o, all);
  if (o.list) {
    list_checks(protocols, o.json, out);
    return static_cast<int>(exit_code::ok);
  }
  std::vector<check_run> runs = runs_of(protocols);
  check_report report{o, out};
  workers at_work{runs, o};
  progress_line progress;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::string& name = runs[i].mutant != nullptr ? runs[i].mutant->name : runs[i].exploration->name;
    progress.show(fmt::format("{} of {}: {}: {} ...", i + 1, runs.size(), runs[i].protocol->name, name));
    const check_run& ended = at_work.await(i);
    progress.clear();
    report.add(ended);
  }
  report.close();
  return static_cast<int>(report.all_well() ? exit_code::ok : exit_code::check_failed);
}

}  // namespace baton::cli
