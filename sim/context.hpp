#pragma once
// The sim back end of exec: one fiber speaks for a warp and loops over its lanes.
#include <atomic>
#include <cstring>
#include <type_traits>
#include <vector>

#include "base/bits.hpp"
#include "exec/exec.hpp"
#include "exec/far.hpp"
#include "exec/line.hpp"
#include "exec/mbarrier.hpp"
#include "sim/alignment.hpp"
#include "sim/group_verbs.hpp"
#include "sim/lane_verbs.hpp"
#include "sim/machine.hpp"
#include "sim/mma_verbs.hpp"
#include "sim/narrow_verbs.hpp"

namespace baton::sim {

struct block_state;
struct warp_state;

class context : public lane_verbs<context>,
                public mma_verbs<context>,
                public group_verbs<context>,
                public narrow_verbs<context> {
 public:
  using group_verbs<context>::clear;
  using group_verbs<context>::each_pair;
  using mma_verbs<context>::clear;
  using mma_verbs<context>::each_pair;
  using mma_verbs<context>::multiply_add;
  using narrow_verbs<context>::multiply_add;

  context(machine::state& m, warp_state& me, const grid& shape);

  int rank() const { return rank_; }
  int block() const { return block_; }
  int num_blocks() const { return shape_.blocks; }
  int warp() const { return warp_; }
  int num_warps() const { return shape_.warps; }
  std::byte* shared() const { return shared_; }

  void sync_block();

  template <class T>
  T read(const T* at) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 16);
    require_aligned(at, alignof(T));
    before_read(at, sizeof(T));
    T value;
    std::memcpy(static_cast<void*>(&value), at, sizeof(T));
    return value;
  }
  template <class T>
  void write(T* at, const std::type_identity_t<T>& value) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 16);
    require_aligned(at, alignof(T));
    if (delays_) {
      delayed_write(at, &value, sizeof(T));
    } else {
      std::memcpy(static_cast<void*>(at), &value, sizeof(T));
    }
  }

  template <order O, scope S, class Word>
  Word load(const Word* at) {
    step(O, S);
    before_read(at, sizeof(Word));
    return std::atomic_ref<Word>{*const_cast<Word*>(at)}.load(
        O == order::relaxed ? std::memory_order_relaxed : std::memory_order_acquire);
  }
  template <order O, scope S, class Word>
  void store(Word* at, std::type_identity_t<Word> value) {
    step(O, S);
    if (S == scope::system) value = static_cast<Word>(flipped(at, value));
    if (O == order::relaxed && delays_) return delayed_write(at, &value, sizeof(Word));
    if (O != order::relaxed) release(S);
    before_read(at, sizeof(Word));
    std::atomic_ref<Word>{*at}.store(
        value, O == order::relaxed ? std::memory_order_relaxed : std::memory_order_release);
    changed();
    after_signal();
  }
  template <order O, scope S, class Word>
  Word fetch_add(Word* at, std::type_identity_t<Word> value) {
    return modify<O, S>(at, [&](std::atomic_ref<Word> word) { return word.fetch_add(value); });
  }
  template <order O, scope S, class Word>
  bool count_to(Word* at, std::type_identity_t<Word> amount, std::type_identity_t<Word> target) {
    return fetch_add<O, S>(at, amount) + amount == target;
  }
  template <order O, scope S, class Word>
  Word fetch_min(Word* at, std::type_identity_t<Word> value) {
    return modify<O, S>(at, [&](std::atomic_ref<Word> word) {
      Word before = word.load();
      while (value < before && !word.compare_exchange_weak(before, value)) {
      }
      return before;
    });
  }
  template <order O, scope S, class Word>
  Word fetch_or(Word* at, std::type_identity_t<Word> bits) {
    return modify<O, S>(at, [&](std::atomic_ref<Word> word) { return word.fetch_or(bits); });
  }
  template <order O, scope S, class Word>
  Word exchange(Word* at, std::type_identity_t<Word> value) {
    return modify<O, S>(at, [&](std::atomic_ref<Word> word) { return word.exchange(value); });
  }
  template <order O, scope S>
  void fence() {
    step(O, S);
    if (O != order::acquire) release(S);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }

  bool has_given_up() const;
  std::uint32_t gave_up_before() const { return has_given_up() ? 1 : 0; }
  void refuse(const wait_site& where, std::uint64_t seen) { report(where, 0, seen, 0); }

  template <order O, scope S, class Word, class Done>
  bool wait(const lanes<Word*>& words, Done done, wait_site where, lanes<Word>& seen) {
    require_whole("wait");
    step(O, S);
    const std::uint64_t began = now_ns();
    for (int last = -1;;) {
      const int missing = first_missing(words, done, seen);
      if (missing < 0) return waited(where, began, last);
      if (!keep_waiting(where, began, missing, seen[missing])) return false;
      last = missing;
    }
  }

  // Lines: exec/line.hpp, bodies in context_lines.cpp.
  void store_lines(std::byte* to, const lanes<vec16>& v);
  lanes<vec16> load_lines(const std::byte* from);
  template <int n>
  void load_lines(const line_places<n>& from, lanes<vec16> (&seen)[n]) {
    for (int i = 0; i < n; ++i) seen[i] = load_lines(from.at[i]);
  }
  template <int n, class Done>
  bool wait_lines(const line_places<n>& from, Done done, const wait_site& where, lanes<vec16> (&seen)[n]) {
    require_whole("wait_lines");
    scheduling_point();
    const std::uint64_t began = now_ns();
    for (int last = -1;;) {
      load_lines(from, seen);
      int lane = 0;
      for (; lane < warp_lanes; ++lane) {
        vec16 values[n];
        for (int i = 0; i < n; ++i) values[i] = seen[i][lane];
        if (!done(lane, values)) break;
      }
      if (lane == warp_lanes) return waited(where, began, last);
      if (!keep_waiting(where, began, lane, tail_of(seen[0][lane]))) return false;
      last = lane;
    }
  }

  // Ranks that stores do not reach: exec/far.hpp, bodies in network.cpp.
  void put(int rank, std::byte* to, const std::byte* from, int bytes);
  void fence_puts();
  void signal(int rank, std::uint64_t* word, std::uint64_t value);
  void put_and_signal(const signalled_put& one);
  template <class Of>
  void put_and_signal(std::uint32_t lanes, Of of) {
    for (; lanes != 0; lanes &= lanes - 1) put_and_signal(of(lowest_bit(lanes)));
  }

  // The asynchronous half: exec/mbarrier.hpp, bodies in context_async.cpp.
  int cluster_block() const { return block_ % shape_.cluster; }
  int cluster_blocks() const { return shape_.cluster; }
  template <class T>
  T* in_block(T* at, int block) const {
    return reinterpret_cast<T*>(place_in_block(reinterpret_cast<std::byte*>(at), block));
  }
  void sync_cluster();
  void meet_cluster();
  void mbarrier_init(mbarrier* b, int arrivals);
  template <scope Reach = scope::cluster>
  void mbarrier_arrive(mbarrier* b, int n) {
    arrive(Reach, b, n);
  }
  template <scope Reach = scope::cluster>
  void mbarrier_arrive_expect(mbarrier* b, int bytes) {
    arrive_expect(Reach, b, bytes);
  }
  template <scope Reach = scope::cluster>
  void mbarrier_arrive_at(mbarrier* b, int block_of_cluster, int n) {
    arrive_at(Reach, b, block_of_cluster, n);
  }
  void fence_mbarrier_init();
  void fence_proxy_async();
  void fence_proxy_async_global() { fence_proxy_async(); }
  void bulk_load(void* to, const void* from, int bytes, mbarrier* b);
  void bulk_store(void* to, const void* from, int bytes);
  void bulk_commit();
  template <int newest = 0>
  void bulk_wait_read() {
    require_whole("bulk_wait_read");
    wait_stores(newest, true);
  }
  template <int newest = 0>
  void bulk_wait() {
    require_whole("bulk_wait");
    wait_stores(newest, false);
  }
  template <scope S>
  bool mbarrier_wait(mbarrier* b, parity p, wait_site where) {
    static_assert(S <= scope::cluster, "an mbarrier reaches no further than its cluster");
    require_whole("mbarrier_wait");
    return wait_phase(b, p, where);
  }

  template <scope S>
  void mbarrier_wait_or_note(mbarrier* b, parity p, std::uint32_t which, const wait_site& where,
                             std::uint32_t* late) {
    require_whole("mbarrier_wait_or_note");
    if (read(late) == 0 && !mbarrier_wait<S>(b, p, where)) write(late, which);
  }
  /// It was reported where it happened.
  void report_late(const wait_site&) { require_whole("report_late"); }

  template <scope S>
  bool mbarrier_is_over(mbarrier* b, parity p) {
    static_assert(S <= scope::cluster, "an mbarrier reaches no further than its cluster");
    require_whole("mbarrier_is_over");
    return phase_is_over(b, p);
  }
  /// Copied as late as may be: when the arrival that tells of it happens.
  void copy_word(void* to, const void* from) {
    copies_.push_back({static_cast<std::uint32_t*>(to), static_cast<const std::uint32_t*>(from)});
  }
  void copy_chunk(void* to, const void* from, int bytes) {
    for (int i = 0; i < 16; i += 4)
      copies_.push_back(
          {reinterpret_cast<std::uint32_t*>(static_cast<std::byte*>(to) + i),
           bytes == 0 ? nullptr
                      : reinterpret_cast<const std::uint32_t*>(static_cast<const std::byte*>(from) + i)});
  }
  void commit_copies() {
    require_whole("commit_copies");
    committed_.push_back(copies_.size());
  }
  template <int newest>
  void await_copies() {
    require_whole("await_copies");
    await_all_copies_but(newest);
  }
  void mbarrier_arrive_after_copies(mbarrier* b);

  // Tensor copies: exec/tensor_copy.hpp, bodies in context_tensor.cpp.
  void tensor_load(void* to, const tensor_map& map, box_origin box, mbarrier* b);
  void tensor_load_to(void* to, const tensor_map& map, box_origin box, mbarrier* b, std::uint32_t blocks);
  void tensor_store(const tensor_map& map, box_origin box, const void* from);
  void box_load(void* to, const tensor_map& map, const box_place& place, mbarrier* b);
  void box_load_once(void* to, const tensor_map& map, const box_place& place, mbarrier* b) {
    box_load(to, map, place, b);
  }
  void box_load_to(void* to, const tensor_map& map, const box_place& place, mbarrier* b,
                   std::uint32_t blocks);
  void box_store(const tensor_map& map, const box_place& place, const void* from);
  void ask_for_box(const tensor_map&, const box_place&) {}
  void prefetch(const tensor_map&) {}

  struct reached_block {
    int number;
  };
  reached_block reach(int block) const { return {block}; }
  template <class T>
  void store_counted(reached_block there, T* to, const std::type_identity_t<T>& value, mbarrier* b) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16);
    store_counted_bytes(there.number, to, &value, sizeof value, b);
  }

  void sync_groups(int id, int groups);
  /// Shared memory as the copy engine and products see it.
  const std::byte* engine_view(const std::byte* shared, std::size_t bytes) const;
  /// Whether what the engines have been given runs at once, in this schedule.
  bool engine_is_quick();

 private:
  /// pair: of a put and the word of its own (network.hpp); 0: apart.
  void send_put(const char* verb, int rank, std::byte* to, const std::byte* from, int bytes,
                std::uint64_t pair);
  void send_word(const far_word& word, std::uint64_t pair);
  static std::uint64_t tail_of(const vec16& v) {
    return static_cast<std::uint64_t>(v.word[3]) << 32 | v.word[2];
  }
  template <class Word, class Done>
  int first_missing(const lanes<Word*>& words, Done done, lanes<Word>& seen) {
    for (int lane = 0; lane < warp_lanes; ++lane) {
      if (words[lane] == nullptr) continue;
      before_read(words[lane], sizeof(Word));
      seen[lane] = std::atomic_ref<Word>{*words[lane]}.load(std::memory_order_acquire);
      if (!done(lane, seen[lane])) return lane;
    }
    return -1;
  }
  template <order O, scope S, class Word, class F>
  Word modify(Word* at, F f) {
    step(O, S);
    if (O == order::release || O == order::acq_rel) release(S);
    before_read(at, sizeof(Word));
    const Word before = f(std::atomic_ref<Word>{*at});
    if (S != scope::block || somebody_waits()) changed();
    if (O != order::relaxed) after_signal();
    return before;
  }
  bool is_shared(const void* at) const;
  /// Relaxed access at block scope is counting in shared memory: too frequent to switch at.
  void step(order o, scope s) {
    if (s != scope::block || o != order::relaxed) scheduling_point();
  }
  void before_read(const void* at, std::size_t size) {
    if (delays_) reveal(at, size);
  }

  bool wait_phase(mbarrier* b, parity p, wait_site where);
  bool phase_is_over(mbarrier* b, parity p);
  void arrive(scope reach, mbarrier* b, int n);
  void arrive_expect(scope reach, mbarrier* b, int bytes);
  void arrive_at(scope reach, mbarrier* b, int block_of_cluster, int n);
  block_state& block_of_cluster(const char* verb, int block) const;
  std::byte* place_in_block(std::byte* at, int block) const;
  void load_box(block_state& to_block, void* to, const tensor_map& map, const box_place& place, mbarrier* b);
  void load_box_to(const char* verb, void* to, const tensor_map& map, const box_place& place, mbarrier* b,
                   std::uint32_t blocks);
  void store_box(const char* verb, const tensor_map& map, const box_place& place, const void* from);
  void store_counted_bytes(int block, void* to, const void* value, std::size_t bytes, mbarrier* b);
  template <class Transition>
  void change(mbarrier* b, Transition transition);
  void require_copy(const void* shared, const void* global, int bytes) const;
  /// Until committed stores, but for those of the `newest` groups, have been read, or are done.
  void wait_stores(int newest, bool only_read);
  bool gave_up() const;
  void sleep();

  bool somebody_waits() const;
  void scheduling_point();
  void after_signal();
  void reveal(const void* at, std::size_t size);
  void delayed_write(void* at, const void* value, std::size_t size);
  void release(scope s);
  void changed();
  std::uint64_t flipped(const void* at, std::uint64_t value);
  std::uint64_t now_ns() const;
  bool keep_waiting(const wait_site& where, std::uint64_t began, int lane, std::uint64_t seen);
  /// True: a wait is over, which it was at once, or when lane `last` had what it waited for.
  bool waited(const wait_site& where, std::uint64_t began, int last);
  stuck_record record_of(const wait_site& where, int lane, std::uint64_t seen, std::uint64_t waited_ns) const;
  void copy_words(std::size_t count);
  void await_all_copies_but(std::size_t newest);
  void report(const wait_site& where, int lane, std::uint64_t seen, std::uint64_t waited_ns);

  struct word_copy {
    std::uint32_t* to;
    const std::uint32_t* from;
  };

  machine::state& machine_;
  warp_state& me_;
  const grid& shape_;
  int rank_, block_, warp_;
  std::byte* shared_;
  bool delays_;
  std::vector<word_copy> copies_;
  std::vector<std::size_t> committed_;  // how many copies there were at the end of each group
};

static_assert(line_exec_context<context> && far_exec_context<context> && mma_exec_context<context> &&
              group_exec_context<context> && narrow_exec_context<context>);

}  // namespace baton::sim
