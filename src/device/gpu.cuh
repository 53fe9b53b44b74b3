#pragma once
// The execution context of the product: one warp of one block on a GPU. What each verb means: exec/exec.hpp.
//
// A lanes<T> is a register; its index is ignored. Plain access is weak (ld/st), atomics are one PTX
// instruction each. A warp executes the warp verbs together; their _sync instructions converge it.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cuda/ptx>
#include <type_traits>

#include "base/constant.hpp"
#include "device/stuck.cuh"
#include "exec/exec.hpp"
#include "ptx/access.cuh"

namespace baton {

inline constexpr std::uint32_t whole_warp = 0xffffffffu;
inline constexpr std::uint32_t polls_between_clock_reads = 64;
// Of a wait for a peer, whose time counts from then on: some 3 us. Shorter waits are all that a round of few tokens has.
inline constexpr std::uint32_t polls_before_clock = 8;
// At block scope the warps that are waited for share the SM with the one that polls.
inline constexpr std::uint32_t polls_before_back_off = 32;
inline constexpr std::uint32_t back_off_ns = 20;

/// The block's dynamic shared memory.
extern __shared__ __align__(1024) std::byte gpu_shared_memory[];

class gpu {
 public:
  template <class T>
  struct lanes {
    T value;
    BATON_FN T& operator[](int) { return value; }
    BATON_FN const T& operator[](int) const { return value; }
  };

  BATON_FN gpu(int rank, const wait_limits& limits)
      : rank_{rank},
        warp_{__shfl_sync(whole_warp, static_cast<int>(threadIdx.x) / warp_lanes, 0)},
        limits_{limits} {}

  BATON_FN int rank() const { return rank_; }
  BATON_FN int block() const { return static_cast<int>(blockIdx.x); }
  BATON_FN int num_blocks() const { return static_cast<int>(gridDim.x); }
  /// From a broadcast, so that the compiler knows it uniform: what branches on a warp's role keeps the warp together.
  BATON_FN int warp() const { return warp_; }
  BATON_FN int num_warps() const { return static_cast<int>(blockDim.x) / warp_lanes; }
  BATON_FN std::byte* shared() const { return gpu_shared_memory; }

  template <class F>
  BATON_FN void each_lane(F f) {
    f(lane());
  }
  template <class F>
  BATON_FN void each(int n, F f) {
    for (int i = lane(); i < n; i += warp_lanes) f(i);
  }
  template <class F>
  BATON_FN void block_each(int n, F f) {
    for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x)) f(i);
  }

  /// Always lane 0, so that consecutive elects are in the program order of one thread.
  template <class F>
  BATON_FN void elect(F f) {
    if (lane() == 0) f();
  }
  template <class F>
  BATON_FN auto from_one(F f) {
    lanes<std::decay_t<decltype(f())>> v{};
    if (lane() == 0) v.value = f();
    return broadcast(v, 0);
  }

  template <class T>
  BATON_FN T broadcast(lanes<T> v, int from) {
    return by_words(v.value, [&](std::uint32_t w) { return __shfl_sync(whole_warp, w, from); });
  }
  template <class T>
  BATON_FN lanes<T> shuffle(lanes<T> v, lanes<int> from) {
    return {by_words(v.value, [&](std::uint32_t w) { return __shfl_sync(whole_warp, w, from.value); })};
  }
  template <class T>
  BATON_FN lanes<T> shuffle_xor(lanes<T> v, int mask) {
    return {by_words(v.value, [&](std::uint32_t w) { return __shfl_xor_sync(whole_warp, w, mask); })};
  }
  template <class T>
  BATON_FN lanes<T> shuffle_up(lanes<T> v, int delta) {
    const auto by = static_cast<unsigned>(delta);
    return {by_words(v.value, [&](std::uint32_t w) { return __shfl_up_sync(whole_warp, w, by); })};
  }
  BATON_FN std::uint32_t ballot(lanes<bool> p) { return __ballot_sync(whole_warp, p.value); }
  BATON_FN lanes<std::uint32_t> equal_lanes(lanes<int> v) { return {__match_any_sync(whole_warp, v.value)}; }
  BATON_FN void sync_warp() { __syncwarp(); }
  BATON_FN void sync_block() { __syncthreads(); }

  /// Types aligned to 16 bytes move as one ld/st.v4. Ordinary loads: never the non-coherent path, since what
  /// is read may have been written by another GPU while this kernel ran.
  template <class T>
  BATON_FN T read(const T* p) const {
    check_plain<T>();
    if constexpr (sizeof(T) == 16 && alignof(T) == 16)
      return std::bit_cast<T>(*reinterpret_cast<const uint4*>(p));
    else
      return *p;
  }
  template <class T>
  BATON_FN void write(T* p, const std::type_identity_t<T>& v) const {
    check_plain<T>();
    if constexpr (sizeof(T) == 16 && alignof(T) == 16)
      *reinterpret_cast<uint4*>(p) = std::bit_cast<uint4>(v);
    else
      *p = v;
  }

  template <order Order, scope Scope, class T>
  BATON_FN std::remove_const_t<T> load(T* p) const {
    return std::bit_cast<std::remove_const_t<T>>(in_space<Scope>(p, [p](auto space) {
      return ptx::ld<Order, Scope, space.value>(reinterpret_cast<const word<T>*>(p));
    }));
  }
  template <order Order, scope Scope, class T>
  BATON_FN void store(T* p, std::type_identity_t<T> v) const {
    in_space<Scope>(p, [=](auto space) {
      ptx::st<Order, Scope, space.value>(reinterpret_cast<word<T>*>(p), std::bit_cast<word<T>>(v));
    });
  }
  template <order Order, scope Scope, class T>
  BATON_FN T fetch_add(T* p, std::type_identity_t<T> v) const {
    static_assert(std::is_integral_v<T>);  // two's complement: one instruction for both signs
    return update<ptx::update::add, Order, Scope>(p, v);
  }
  template <order Order, scope Scope, class T>
  BATON_FN bool count_to(T* p, std::type_identity_t<T> amount, std::type_identity_t<T> target) const {
    return fetch_add<Order, Scope>(p, amount) + amount == target;
  }
  template <order Order, scope Scope, class T>
  BATON_FN T fetch_min(T* p, std::type_identity_t<T> v) const {
    static_assert(std::is_unsigned_v<T>);
    return update<ptx::update::min, Order, Scope>(p, v);
  }
  template <order Order, scope Scope, class T>
  BATON_FN T exchange(T* p, std::type_identity_t<T> v) const {
    return update<ptx::update::exch, Order, Scope>(p, v);
  }
  template <order Order, scope Scope, class T>
  BATON_FN T fetch_or(T* p, std::type_identity_t<T> v) const {
    static_assert(std::is_unsigned_v<T>);
    return update<ptx::update::either, Order, Scope>(p, v);
  }
  BATON_FN bool has_given_up() const {
    return limits_.abort != nullptr && ptx::ld<order::relaxed, scope::system>(limits_.abort) != 0;
  }
  BATON_FN void refuse(const wait_site& where, std::uint64_t seen) const { report(where, 0, seen, 0); }
  template <order Order, scope Scope>
  BATON_FN void fence() const {
    static_assert(Order != order::relaxed, "a relaxed fence orders nothing");
    // sm_90 has no fence that only acquires or only releases.
    cuda::ptx::fence(cuda::ptx::sem_acq_rel, cuda::ptx::scope_t<dot(Scope)>{});
  }

  /// Every lane polls its own word until its value is right; the vote ends the wait.
  ///
  /// An acquire wait polls with ld.acquire: the load that sees the awaited value is itself the acquire, so
  /// the wait ends without another round trip, and without the membar that ld.relaxed + fence.acq_rel would
  /// put behind this thread's own outstanding stores. The acquire belongs to the lane that polled; __syncwarp
  /// hands what it made visible to the other lanes (the vote alone orders no memory).
  template <order Order, scope Scope, class Word, class Done>
  BATON_FN bool wait(lanes<Word*> words, Done done, const wait_site& where,
                     lanes<std::remove_const_t<Word>>& seen) {
    bool ok = words.value == nullptr, last = false;
    std::uint64_t start = 0;
    for (std::uint32_t polls = 1;; ++polls) {
      last = !ok;
      if (!ok) {
        seen.value = load<Order, Scope>(words.value);
        ok = done(lane(), seen.value);
      }
      if (__all_sync(whole_warp, ok)) break;
      start_clock(polls, where, start);
      if (polls % polls_between_clock_reads == 0 && gives_up(ok, seen.value, where, start)) return false;
      if (Scope == scope::block && polls > polls_before_back_off) __nanosleep(back_off_ns);
    }
    if (where.peer >= 0 && start != 0) note_wait(where, first_of(last), start);
    if constexpr (Order != order::relaxed) __syncwarp();
    return true;
  }

 protected:
  BATON_FN const wait_limits& limits() const { return limits_; }
  BATON_FN static int lane() { return static_cast<int>(threadIdx.x) % warp_lanes; }

  BATON_FN static int first_of(bool lane_is) {
    return __ffs(static_cast<int>(__ballot_sync(whole_warp, lane_is))) - 1;
  }

  /// A wait that is served soon pays for no clock read.
  BATON_FN static void start_clock(std::uint32_t polls, const wait_site& where, std::uint64_t& start) {
    if (where.peer >= 0 && polls == polls_before_clock) start = cuda::ptx::get_sreg_globaltimer();
  }

  /// For what is no peer's the clock starts at the first call, 64 polls into the wait. A wait for a peer that goes on says so.
  BATON_FN bool gives_up(bool ok, std::uint64_t seen, const wait_site& where, std::uint64_t& start) {
    const std::uint64_t now = cuda::ptx::get_sreg_globaltimer();
    if (start == 0) start = now;
    if (__any_sync(whole_warp, has_given_up())) return true;
    const bool is_late = limits_.deadline_ns != 0 && now - start >= limits_.deadline_ns * where.patience;
    const bool late = __any_sync(whole_warp, is_late) != 0;
    stuck_record* lasts = nullptr;
    if (!late) {
      if (where.peer < 0 || limits_.log == nullptr) return false;
      lasts = &limits_.log->of_block(block()).of_warp(warp());
    }
    const int first_missing = first_of(!ok);
    if (lane() == first_missing) report(where, first_missing, seen, now - start, lasts);
    __syncwarp();
    return late;
  }

  /// A wait that outlived its deadline, said so behind it.
  BATON_FN void report_as_late(const wait_site& where) const {
    if (lane() == 0) report(where, 0, 0, limits_.deadline_ns * where.patience);
    __syncwarp();
  }

  /// The wait is over; the time goes to whom the first of the lanes waited for that were the last to see what they waited for.
  BATON_FN void note_wait(const wait_site& where, int last, std::uint64_t start) const {
    wait_log* log = limits_.log;
    if (log == nullptr || lane() != last) return;
    asm("" : "+l"(log));  // as in report_wait
    wait_log::row& row = log->of_block(block());
    wait_log::counter& count = row.of_peer(peer_of(where, last));
    const std::uint64_t now = cuda::ptx::get_sreg_globaltimer();
    fetch_add<order::relaxed, scope::device>(&count.ns, now - start);
    fetch_add<order::relaxed, scope::device>(&count.waits, 1);
    store<order::relaxed, scope::device>(&row.of_warp(warp()).complete, 0);
  }

 private:
  /// One lane: where it waited, or refused; the lane that this was about.
  BATON_FN void report(const wait_site& where, int about, std::uint64_t seen, std::uint64_t waited_ns,
                       stuck_record* lasts = nullptr) const {
    stuck_record found{};
    found.rank = static_cast<std::int16_t>(rank_);
    found.block = blockIdx.x;
    found.warp = static_cast<std::uint16_t>(warp());
    found.where = where.where;
    found.peer = static_cast<std::int16_t>(peer_of(where, about));
    found.epoch = where.epoch;
    found.expected = where.expected;
    found.seen = seen;
    found.waited_ns = waited_ns;
    found.lane = static_cast<std::uint8_t>(about);
    report_wait(limits_, found, lasts);
  }

  template <class T>
  using word = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

  /// f(the state space of the word). Words of block scope stand in shared memory, which the compiler sees: an access that
  /// says so needs no generic address, and no branch is left.
  template <scope Scope, class F>
  BATON_FN static auto in_space(const void* word, F f) {
    if constexpr (Scope == scope::block)
      if (__isShared(word)) return f(constant<ptx::space::shared>{});
    return f(constant<ptx::space::generic>{});
  }
  template <ptx::update What, order Order, scope Scope, class T>
  BATON_FN static T update(T* p, T v) {
    return std::bit_cast<T>(in_space<Scope>(p, [=](auto space) {
      return ptx::atom<What, Order, Scope, space.value>(reinterpret_cast<word<T>*>(p),
                                                        std::bit_cast<word<T>>(v));
    }));
  }
  static constexpr cuda::ptx::dot_scope dot(scope s) {
    using enum cuda::ptx::dot_scope;
    constexpr cuda::ptx::dot_scope dots[] = {cta, cluster, gpu, sys};
    return dots[static_cast<int>(s)];
  }

  template <class T>
  BATON_FN static constexpr void check_plain() {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 16);
  }

  template <class T, class Move>
  BATON_FN static T by_words(T v, Move move) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 16);
    std::uint32_t w[(sizeof(T) + 3) / 4] = {};
    std::memcpy(w, &v, sizeof(T));
    for (std::uint32_t& one : w) one = move(one);
    std::memcpy(&v, w, sizeof(T));
    return v;
  }

  int rank_, warp_;
  wait_limits limits_;
};
static_assert(exec_context<gpu>);

}  // namespace baton
