#include "interrupt.hpp"

#include <pthread.h>
#include <unistd.h>
#include <csignal>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "baton/error.hpp"
#include "baton/give_up.hpp"

namespace baton::python {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds look_every{20};
constexpr int looks_before_sleep = 250;  // 5 s without a wait

std::atomic<bool> interrupted{false};
std::atomic<std::uint64_t> meetings_given_up{0};
struct sigaction before_us = {};  // whoever handles SIGINT else: Python

void on_interrupt(int signal, siginfo_t* info, void* context) {
  interrupted.store(true);
  if ((before_us.sa_flags & SA_SIGINFO) != 0)
    before_us.sa_sigaction(signal, info, context);
  else if (before_us.sa_handler != SIG_IGN && before_us.sa_handler != SIG_DFL)
    before_us.sa_handler(signal);
}

bool is_ours(const struct sigaction& one) {
  return (one.sa_flags & SA_SIGINFO) != 0 && one.sa_sigaction == &on_interrupt;
}

bool is_same(const struct sigaction& one, const struct sigaction& other) {
  const bool has_info = (one.sa_flags & SA_SIGINFO) != 0;
  return one.sa_flags == other.sa_flags &&
         (has_info ? one.sa_sigaction == other.sa_sigaction : one.sa_handler == other.sa_handler);
}

/// Listens to SIGINT while the main thread waits, and looks now and then whether a long wait was interrupted. Never destroyed:
/// its thread may outlive whatever a process destroys at its end.
class watcher {
 public:
  /// @param rank  whose work is waited for; nullopt: ranks meet
  void begin(std::optional<world> rank) {
    const std::lock_guard lock{mutex_};
    waiting_.emplace(std::move(rank));
    ++waits_;
    if (!std::exchange(has_thread_, true)) std::thread{[this] { watch(); }}.detach();
    listen();
    if (sleeps_) wake_.notify_one();
  }
  void end() {
    const std::lock_guard lock{mutex_};
    waiting_.reset();
    stop_listening();
  }

 private:
  [[noreturn]] void watch() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    std::unique_lock lock{mutex_};
    for (std::uint64_t seen = 0, idle = 0;; seen = waits_) {
      idle = waiting_ ? 0 : idle + 1;
      sleeps_ = idle > looks_before_sleep;
      if (sleeps_)
        wake_.wait(lock, [this] { return waiting_.has_value(); });
      else
        wake_.wait_for(lock, look_every);
      sleeps_ = false;
      if (waiting_ && waits_ == seen) look(lock);
    }
  }

  /// At a wait that was there at the last look, too.
  void look(std::unique_lock<std::mutex>& lock) {
    if (!interrupted.load()) return;
    const std::optional<world> rank = *waiting_;
    lock.unlock();
    try {
      if (rank)
        give_up(*rank);
      else
        end_meetings();
    } catch (const error&) {  // the wait ends at its deadline
    }
    lock.lock();
  }

  /// One call of the system where SIGINT is handled as at the last wait.
  void listen() {
    struct sigaction now = {};
    if (sigaction(SIGINT, has_listened_ ? &ours_ : nullptr, &now) != 0) return;
    listens_ = has_listened_;
    if (is_ours(now) || (listens_ && is_same(now, before_us))) return;
    before_us = now;
    const bool is_nobodys =
        (now.sa_flags & SA_SIGINFO) == 0 && (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN);
    if (is_nobodys) return stop_listening();  // the process ends, or does not care
    ours_ = now;
    ours_.sa_flags |= SA_SIGINFO;
    ours_.sa_sigaction = &on_interrupt;
    has_listened_ = listens_ = sigaction(SIGINT, &ours_, nullptr) == 0;
  }

  void stop_listening() {
    struct sigaction now = {};
    if (!std::exchange(listens_, false) || sigaction(SIGINT, &before_us, &now) != 0) return;
    if (!is_ours(now)) sigaction(SIGINT, &now, nullptr);  // somebody's who came meanwhile
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::optional<std::optional<world>> waiting_;  // what the main thread waits for
  std::uint64_t waits_ = 0;
  struct sigaction ours_ = {};
  bool has_listened_ = false, listens_ = false, sleeps_ = false, has_thread_ = false;
};

/// A fork has a new one: threads stay behind.
watcher& the_watcher() {
  static watcher* one = new watcher;
  static const int is_told = pthread_atfork(nullptr, nullptr, [] { one = new watcher; });
  static_cast<void>(is_told);
  return *one;
}

/// That which Python handles signals in.
bool is_main_thread() {
  static thread_local const bool is_main = ::getpid() == ::gettid();
  return is_main;
}

void begin_wait(std::optional<world> rank) {
  interrupted.store(false);
  the_watcher().begin(std::move(rank));
}

}  // namespace

interruptible_wait::interruptible_wait() : is_main_{is_main_thread()} {
  if (is_main_) begin_wait(std::nullopt);
}

interruptible_wait::interruptible_wait(const world& rank) : is_main_{is_main_thread()} {
  if (is_main_) begin_wait(rank);
}

void interruptible_wait::raise_what_came_before() const {
  if (is_main_ && PyErr_CheckSignals() != 0) throw nanobind::python_error{};
}

interruptible_wait::~interruptible_wait() {
  if (is_main_) the_watcher().end();
}

void end_meetings() {
  ++meetings_given_up;
  give_up_meetings();
}

std::uint64_t num_meetings_given_up() {
  return meetings_given_up.load();
}

bool was_interrupted() {
  return is_main_thread() && interrupted.load();
}

/// The handler runs before anything is said: what writes to standard error runs it as well, and loses what it raises.
void say_and_interrupt(const error& of_wait) {
  std::optional<nanobind::python_error> raised;
  if (PyErr_CheckSignals() != 0) raised.emplace();
  PySys_FormatStderr("baton: interrupted: %s\n", of_wait.what());
  if (raised) throw std::move(*raised);
}

}  // namespace baton::python
