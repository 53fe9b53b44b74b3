#pragma once
// How ranks that are threads of one process meet: an all-gather over shared slots.
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "baton/error.hpp"
#include "baton/world.hpp"

namespace baton::bootstrap {

/// What waiting ranks get when another rank breaks the meeting off: not the cause, only its echo.
class left_behind : public transport_error {
 public:
  using transport_error::transport_error;
};

/// Rounds follow each other: the last rank to arrive publishes the round's bytes and the next round opens.
/// A round that fails (late rank, different sizes, one rank twice) fails for all its ranks, and the meeting
/// stays closed with that reason until reopen(): ranks that lost count of rounds must not be paired up again.
class thread_rendezvous {
 public:
  thread_rendezvous(int size, std::chrono::milliseconds deadline);

  void all_gather(int rank, const void* mine, void* all, std::size_t bytes);

  /// Fails the ranks that wait now or arrive later, with left_behind.
  void break_off(const std::string& why);

  /// Starts over. Only while no rank is inside.
  void reopen();

 private:
  struct round {
    explicit round(int size) : present(static_cast<std::size_t>(size)) {}
    std::size_t bytes = 0;
    int arrived = 0;
    bool complete = false;
    std::vector<bool> present;
    std::vector<std::byte> gathered;
  };
  void enter(round& now, int rank, const void* mine, std::size_t bytes);
  [[noreturn]] void fail(const std::string& why);
  std::string missing_text(const round& now, int rank, std::chrono::milliseconds waited) const;

  int size_;
  std::chrono::milliseconds deadline_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<round> round_;
  std::string broken_;
};

/// The callback of one rank.
all_gather_fn all_gather_of(std::shared_ptr<thread_rendezvous> meeting, int rank);

}  // namespace baton::bootstrap
