#include "bootstrap/thread_rendezvous.hpp"

#include <fmt/format.h>

#include <cstring>

#include "bootstrap/rank_list.hpp"
#include "bootstrap/time_limit.hpp"

namespace baton::bootstrap {

thread_rendezvous::thread_rendezvous(int size, std::chrono::milliseconds deadline)
    : size_{size}, deadline_{deadline}, round_{std::make_shared<round>(size)} {}

void thread_rendezvous::fail(const std::string& why) {
  broken_ = why;
  changed_.notify_all();
  throw transport_error{why};
}

std::string thread_rendezvous::missing_text(const round& now, int rank,
                                            std::chrono::milliseconds waited) const {
  std::vector<int> missing;
  for (int r = 0; r < size_; ++r)
    if (!now.present[static_cast<std::size_t>(r)]) missing.push_back(r);
  return fmt::format(
      "rank {} of {} waited {} ms for {} to join a collective call. Ranks of one process need a thread each "
      "for "
      "collective calls (or a *_all form); raise BATON_DEADLINE_MS if they may be this late",
      rank, size_, waited.count(), rank_list(missing));
}

void thread_rendezvous::enter(round& now, int rank, const void* mine, std::size_t bytes) {
  if (now.arrived == 0) {
    now.bytes = bytes;
    now.gathered.resize(bytes * static_cast<std::size_t>(size_));
  }
  if (now.bytes != bytes)
    fail(fmt::format(
        "ranks disagree in a collective call: rank {} brings {} bytes, others {}; all ranks must make the "
        "same calls in the same order",
        rank, bytes, now.bytes));
  if (now.present[static_cast<std::size_t>(rank)])
    fail(fmt::format("rank {} joined the same collective call twice: two threads act as this rank", rank));
  now.present[static_cast<std::size_t>(rank)] = true;
  if (bytes > 0) std::memcpy(now.gathered.data() + static_cast<std::size_t>(rank) * bytes, mine, bytes);
  if (++now.arrived < size_) return;
  now.complete = true;
  round_ = std::make_shared<round>(size_);
  changed_.notify_all();
}

void thread_rendezvous::all_gather(int rank, const void* mine, void* all, std::size_t bytes) {
  std::unique_lock lock{mutex_};
  if (!broken_.empty()) throw left_behind{broken_};
  const std::shared_ptr<round> now = round_;
  enter(*now, rank, mine, bytes);
  const time_limit limit{deadline_};
  while (!changed_.wait_for(lock, limit.wait(), [&] { return now->complete || !broken_.empty(); }))
    if (limit.passed()) fail(missing_text(*now, rank, limit.waited()));
  if (!now->complete) throw left_behind{broken_};
  lock.unlock();
  if (bytes > 0) std::memcpy(all, now->gathered.data(), now->gathered.size());
}

void thread_rendezvous::break_off(const std::string& why) {
  const std::lock_guard lock{mutex_};
  if (broken_.empty()) broken_ = why;
  changed_.notify_all();
}

void thread_rendezvous::reopen() {
  const std::lock_guard lock{mutex_};
  broken_.clear();
  round_ = std::make_shared<round>(size_);
}

all_gather_fn all_gather_of(std::shared_ptr<thread_rendezvous> meeting, int rank) {
  return [meeting = std::move(meeting), rank](const void* mine, void* all, std::size_t bytes) {
    meeting->all_gather(rank, mine, all, bytes);
  };
}

}  // namespace baton::bootstrap
