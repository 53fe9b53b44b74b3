#pragma once
// The threads back end of exec: one std::thread a warp, atomics with the orders as written, so that
// ThreadSanitizer sees exactly the edges that a protocol makes. Scopes are not modelled: on the host every
// thread hears every other.
#include <atomic>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <type_traits>
#include <vector>

#include "sim/lane_verbs.hpp"

namespace baton::threads {

/// What all ranks launch, and how.
struct team {
  int ranks = 1;
  int blocks = 1;
  int warps = 1;
  std::size_t shared_bytes = 0;
  std::chrono::milliseconds deadline{20'000};  // of every wait
  unsigned seed = 1;                           // of the pauses that vary the schedule
};

/// All warps of a block meet here. A mutex and a condition variable, because ThreadSanitizer knows them.
class block_barrier {
 public:
  explicit block_barrier(int warps) : warps_{warps} {}
  void arrive_and_wait() {
    std::unique_lock lock{mutex_};
    const std::uint64_t lap = lap_;
    if (++arrived_ == warps_) {
      arrived_ = 0;
      ++lap_;
      all_here_.notify_all();
      return;
    }
    all_here_.wait(lock, [&] { return lap_ != lap; });
  }
  /// A warp that returns no longer counts.
  void leave() {
    const std::scoped_lock lock{mutex_};
    --warps_;
    if (arrived_ == 0 || arrived_ < warps_) return;
    arrived_ = 0;
    ++lap_;
    all_here_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable all_here_;
  int warps_;
  int arrived_ = 0;
  std::uint64_t lap_ = 0;
};

struct block_state {
  block_state(int warps, std::size_t shared_bytes)
      : barrier{warps}, shared(shared_bytes / sizeof(vec16) + 1) {}
  block_barrier barrier;
  std::vector<vec16> shared;
};

class context : public sim::lane_verbs<context> {
 public:
  context(const team& all, block_state& mine, int rank, int block, int warp)
      : team_{all},
        block_state_{mine},
        rank_{rank},
        block_{block},
        warp_{warp},
        pauses_{all.seed * 7919u + static_cast<unsigned>((rank * all.blocks + block) * all.warps + warp)} {}

  int rank() const { return rank_; }
  int block() const { return block_; }
  int num_blocks() const { return team_.blocks; }
  int warp() const { return warp_; }
  int num_warps() const { return team_.warps; }
  std::byte* shared() const { return reinterpret_cast<std::byte*>(block_state_.shared.data()); }

  void sync_block() { block_state_.barrier.arrive_and_wait(); }

  template <class T>
  T read(const T* p) const {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 16);
    return *p;
  }
  template <class T>
  void write(T* p, const std::type_identity_t<T>& value) const {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 16);
    *p = value;
  }

  template <order Order, scope, class T>
  std::remove_const_t<T> load(T* p) {
    static_assert(Order == order::relaxed || Order == order::acquire);
    return at(p).load(as_standard(Order));
  }
  template <order Order, scope, class T>
  void store(T* p, std::type_identity_t<T> value) {
    static_assert(Order == order::relaxed || Order == order::release);
    pause();
    at(p).store(value, as_standard(Order));
  }
  template <order Order, scope, class T>
  T fetch_add(T* p, std::type_identity_t<T> value) {
    pause();
    return at(p).fetch_add(value, as_standard(Order));
  }
  template <order Order, scope Scope, class T>
  bool count_to(T* p, std::type_identity_t<T> amount, std::type_identity_t<T> target) {
    return fetch_add<Order, Scope>(p, amount) + amount == target;
  }
  template <order Order, scope, class T>
  T fetch_min(T* p, std::type_identity_t<T> value) {
    T before = at(p).load(std::memory_order_relaxed);
    while (!at(p).compare_exchange_weak(before, before < value ? before : value, as_standard(Order),
                                        std::memory_order_relaxed)) {
    }
    return before;
  }
  template <order Order, scope, class T>
  T fetch_or(T* p, std::type_identity_t<T> bits) {
    pause();
    return at(p).fetch_or(bits, as_standard(Order));
  }
  template <order Order, scope, class T>
  T exchange(T* p, std::type_identity_t<T> value) {
    pause();
    return at(p).exchange(value, as_standard(Order));
  }
  template <order Order, scope>
  void fence() {
    static_assert(Order != Order, "ThreadSanitizer does not understand fences: give the accesses an order");
  }

  /// Of this warp: here a rank has no word that all its warps see.
  bool has_given_up() const { return has_given_up_; }
  void refuse(const wait_site&, std::uint64_t) { has_given_up_ = true; }

  template <order Order, scope Scope, class Word, class Done>
  bool wait(const lanes<Word*>& words, Done done, const wait_site&, lanes<std::remove_const_t<Word>>& seen) {
    const auto end = std::chrono::steady_clock::now() + team_.deadline;
    for (int lane = 0; lane < warp_lanes; ++lane) {
      if (words[lane] == nullptr) continue;
      for (seen[lane] = load<Order, Scope>(words[lane]); !done(lane, seen[lane]);) {
        if (std::chrono::steady_clock::now() > end) {
          has_given_up_ = true;
          return false;
        }
        std::this_thread::yield();
        seen[lane] = load<Order, Scope>(words[lane]);
      }
    }
    return true;
  }

 private:
  static constexpr std::memory_order as_standard(order o) {
    switch (o) {
      case order::acquire:
        return std::memory_order_acquire;
      case order::release:
        return std::memory_order_release;
      case order::acq_rel:
        return std::memory_order_acq_rel;
      default:
        return std::memory_order_relaxed;
    }
  }
  template <class T>
  static auto at(T* p) {
    using value_type = std::remove_const_t<T>;
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "an atomic word has 32 or 64 bits");
    return std::atomic_ref<value_type>{*const_cast<value_type*>(p)};
  }
  /// Now and then somebody else goes first.
  void pause() {
    if (pauses_() % 16 == 0) std::this_thread::yield();
  }

  const team& team_;
  block_state& block_state_;
  int rank_, block_, warp_;
  std::minstd_rand pauses_;
  bool has_given_up_ = false;
};

static_assert(exec_context<context>);

/// Runs `body` on every warp of every block of every rank, each on its own thread, and joins them.
inline void run(const team& all, const std::function<void(context&)>& body) {
  std::vector<std::unique_ptr<block_state>> blocks;
  std::vector<std::thread> warps;
  for (int rank = 0; rank < all.ranks; ++rank) {
    for (int block = 0; block < all.blocks; ++block) {
      blocks.push_back(std::make_unique<block_state>(all.warps, all.shared_bytes));
      for (int warp = 0; warp < all.warps; ++warp) {
        warps.emplace_back([&all, &body, mine = blocks.back().get(), rank, block, warp] {
          context x{all, *mine, rank, block, warp};
          body(x);
          mine->barrier.leave();
        });
      }
    }
  }
  for (std::thread& warp : warps) warp.join();
}

}  // namespace baton::threads
