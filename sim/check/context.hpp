#pragma once
// The execution context of the checker: one warp as a fiber of an explored execution. What each verb means:
// exec/exec.hpp.
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <type_traits>

#include "exec/exec.hpp"
#include "exec/line.hpp"
#include "exec/mbarrier.hpp"
#include "sim/check/execution.hpp"
#include "sim/lane_verbs.hpp"
#include "sim/mbarrier_model.hpp"

namespace baton::check {

class context : public sim::lane_verbs<context> {
 public:
  context(execution& run, int warp) : run_{run}, warp_{warp} {}

  int rank() const { return run_.where(warp_).rank; }
  int block() const { return run_.where(warp_).block; }
  int num_blocks() const { return run_.num_blocks(warp_); }
  int warp() const { return run_.where(warp_).warp; }
  int num_warps() const { return run_.num_block_warps(warp_); }
  std::byte* shared() const { return run_.shared(warp_); }

  template <class F>
  void each_lane(F f) {
    for (int lane = 0; lane < warp_lanes; ++lane) on_lane(lane, [&] { f(lane); });
  }
  template <class F>
  void each(int n, F f) {
    for (int i = 0; i < n; ++i) on_lane(i % warp_lanes, [&] { f(i); });
  }
  template <class F>
  void block_each(int n, F f) {
    lane_verbs::block_each(n, [&](int i) { on_lane(i % warp_lanes, [&] { f(i); }); });
  }
  template <class F>
  void elect(F f) {
    on_lane(0, f);
  }
  template <class F>
  auto from_one(F f) {
    return on_lane(0, f);
  }
  void sync_warp() { run_.sync_warp(warp_); }
  void sync_block() { run_.perform(warp_, {verb::sync_block, order::acq_rel, scope::block}); }

  /// Not in the concept: a kernel of this rank ends here and the next one in its stream begins. All warps of the
  /// rank call it.
  void next_kernel() { run_.perform(warp_, {verb::next_kernel, order::acq_rel, scope::system}); }

  /// Not in the concept: this warp's part of a kernel ends, and its part of the next one begins, up to
  /// await_dependencies(). program::kernels_begin_early().
  void next_kernel_early() { run_.next_kernel_early(warp_); }
  void await_dependencies() { run_.await_dependencies(warp_); }

  template <class T>
  T read(const T* p) const {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 16);
    std::remove_const_t<T> value;
    run_.read(warp_, p, &value, sizeof(T));
    return value;
  }
  template <class T>
  void write(T* p, const std::type_identity_t<T>& value) const {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 16);
    run_.write(warp_, p, &value, sizeof(T));
  }

  template <order Order, scope Scope, class T>
  std::remove_const_t<T> load(T* p) const {
    return from_bits<std::remove_const_t<T>>(atomic<Order, Scope>(verb::load, p, 0));
  }
  template <order Order, scope Scope, class T>
  void store(T* p, std::type_identity_t<T> value) const {
    atomic<Order, Scope>(verb::store, p, bits(value));
  }
  template <order Order, scope Scope, class T>
  T fetch_add(T* p, std::type_identity_t<T> value) const {
    static_assert(std::is_integral_v<T>);
    return from_bits<T>(atomic<Order, Scope>(verb::fetch_add, p, bits(value)));
  }
  template <order Order, scope Scope, class T>
  bool count_to(T* p, std::type_identity_t<T> amount, std::type_identity_t<T> target) const {
    static_assert(std::is_integral_v<T>);
    operation op{verb::count_to, Order, Scope, sizeof(T), p, bits(amount), nullptr};
    op.target = bits(target);
    return run_.perform(warp_, op) != 0;
  }
  template <order Order, scope Scope, class T>
  T fetch_min(T* p, std::type_identity_t<T> value) const {
    static_assert(std::is_unsigned_v<T>);
    return from_bits<T>(atomic<Order, Scope>(verb::fetch_min, p, bits(value)));
  }
  template <order Order, scope Scope, class T>
  T fetch_or(T* p, std::type_identity_t<T> value) const {
    static_assert(std::is_unsigned_v<T>);
    return from_bits<T>(atomic<Order, Scope>(verb::fetch_or, p, bits(value)));
  }
  template <order Order, scope Scope, class T>
  T exchange(T* p, std::type_identity_t<T> value) const {
    return from_bits<T>(atomic<Order, Scope>(verb::exchange, p, bits(value)));
  }
  template <order Order, scope Scope>
  void fence() const {
    static_assert(Order != order::relaxed, "a relaxed fence orders nothing");
    run_.fence(warp_, Order, Scope);
  }

  bool has_given_up() const { return run_.has_given_up(warp_); }
  std::uint32_t gave_up_before() const { return has_given_up() ? 1 : 0; }
  /// Nothing is damaged here: whoever refuses was told something wrong.
  void refuse(const wait_site& where, std::uint64_t seen) const { run_.refuse(warp_, where, seen); }
  /// Not in the concept: false and true are both explored.
  bool either() const { return run_.perform(warp_, {verb::either}) != 0; }

  template <order Order, scope Scope, class Word, class Done>
  bool wait(const lanes<Word*>& words, Done done, const wait_site& where,
            lanes<std::remove_const_t<Word>>& seen) const {
    using value_type = std::remove_const_t<Word>;
    wait_request request;
    request.where = where;
    request.predicate = &done;
    request.holds = [](const void* predicate, int lane, std::uint64_t value) -> bool {
      return (*static_cast<const Done*>(predicate))(lane, from_bits<value_type>(value));
    };
    for (int lane = 0; lane < warp_lanes; ++lane) {
      if (words[lane] == nullptr) continue;
      request.words[static_cast<std::size_t>(request.num_words++)] = {lane, words[lane], 0};
    }
    const bool ended = run_.wait(warp_, Order, Scope, sizeof(Word), request);
    for (int i = 0; i < request.num_words; ++i) {
      const awaited_word& word = request.words[static_cast<std::size_t>(i)];
      seen[word.lane] = from_bits<value_type>(ended ? word.seen : unspecified);
    }
    return ended;
  }

  // Lines: exec/line.hpp.
  void store_lines(std::byte* to, const lanes<vec16>& v) {
    for (int line = 0; line < lines_of_access; ++line) {
      std::byte whole[line_bytes];
      std::memcpy(whole, v.value + line * lanes_of_line, line_bytes);
      run_.store_line(warp_, to + line * line_bytes, whole);
    }
  }
  lanes<vec16> load_lines(const std::byte* from) {
    lanes<vec16> seen[1];
    load_lines(line_places<1>{{from}}, seen);
    return seen[0];
  }
  template <int n>
  void load_lines(const line_places<n>& from, lanes<vec16> (&seen)[n]) {
    const auto anything = [](int, const vec16(&)[n]) { return true; };
    wait_lines(from, anything, {.where = "load_lines"}, seen);
  }
  template <int n, class Done>
  bool wait_lines(const line_places<n>& from, Done done, const wait_site& where, lanes<vec16> (&seen)[n]) {
    static_assert(n * lines_of_access < warp_lanes, "a wait has room for so many words, and the predicate's");
    wait_request request;
    request.where = where;
    request.is_look = where.where == site{"load_lines"};
    request.predicate = &done;
    request.group_holds = [](const void* predicate, int group, const std::byte* const* line) -> bool {
      for (int lane = 0; lane < lanes_of_line; ++lane) {
        vec16 values[n];
        for (int i = 0; i < n; ++i)
          std::memcpy(values + i, line[i] + lane * static_cast<int>(sizeof(vec16)), sizeof(vec16));
        if (!(*static_cast<const Done*>(predicate))(group * lanes_of_line + lane, values)) return false;
      }
      return true;
    };
    for (int i = 0; i < n * lines_of_access; ++i) {
      const int place = i / lines_of_access, line = i % lines_of_access;
      request.words[static_cast<std::size_t>(i)] = {line, from.at[place] + line * line_bytes, 0, line_bytes};
    }
    request.num_words = request.num_lines = n * lines_of_access;
    const bool ended = run_.wait_lines(warp_, request);
    for (int i = 0; i < request.num_lines; ++i) {
      vec16* to = seen[i / lines_of_access].value + i % lines_of_access * lanes_of_line;
      if (ended)
        std::memcpy(to, run_.line(request.words[static_cast<std::size_t>(i)].seen), line_bytes);
      else
        std::memset(to, static_cast<int>(unspecified & 0xff), line_bytes);
    }
    return ended;
  }

  // The asynchronous half: exec/mbarrier.hpp.
  int cluster_block() const { return block() % run_.cluster(); }
  int cluster_blocks() const { return run_.cluster(); }
  template <class T>
  T* in_block(T* p, int block) const {
    return reinterpret_cast<T*>(run_.place_in_block(warp_, reinterpret_cast<std::byte*>(p), block));
  }
  void sync_cluster() { run_.perform(warp_, {verb::sync_cluster, order::acq_rel, scope::cluster}); }
  void meet_cluster() { run_.perform(warp_, {verb::meet_cluster, order::relaxed, scope::cluster}); }
  void mbarrier_init(mbarrier* b, int arrivals) { write(b, mbarrier{sim::initialised(arrivals).word()}); }
  /// Only the block's own warps wait there: block scope does for them, and carries on what they know of other blocks.
  template <scope = scope::cluster>
  void mbarrier_arrive(mbarrier* b, int n) {
    arrive(verb::arrive, b, n);
  }
  template <scope = scope::cluster>
  void mbarrier_arrive_expect(mbarrier* b, int bytes) {
    arrive(verb::arrive_expect, b, bytes);
  }
  template <scope Reach = scope::cluster>
  void mbarrier_arrive_at(mbarrier* b, int block_of_cluster, int n) {
    const bool stops_here = Reach == scope::block && block_of_cluster != cluster_block();
    run_.arrive_at(warp_, b, block_of_cluster, n, stops_here ? tells::ends : tells::all);
  }
  struct reached_block {
    int number;
  };
  reached_block reach(int block_of_cluster) const { return {block_of_cluster}; }
  template <class T>
  void store_counted(reached_block there, T* to, const std::type_identity_t<T>& value, mbarrier* b) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16);
    run_.store_counted(warp_, there.number, to, &value, sizeof value, b);
  }
  void fence_mbarrier_init() { run_.fence_proxy(warp_, verb::fence_mbarrier_init); }
  void fence_proxy_async() { run_.fence_proxy(warp_, verb::fence_proxy_async); }
  void fence_proxy_async_global() { run_.fence_proxy(warp_, verb::fence_proxy_async_global); }
  void bulk_load(void* to, const void* from, int bytes, mbarrier* b) {
    run_.bulk_load(warp_, from, {to, bytes, bytes, b});
  }
  /// Not in the concept: what exec/tensor_copy.hpp and exec/group_mma.hpp say of boxes and tiles, for some bytes of each.
  /// tensor_load, and tensor_load_to these blocks of the cluster; `counted`: of a box that the bytes stand for.
  void box_part_load(void* to, const void* from, int bytes, mbarrier* b, int counted) {
    run_.bulk_load(warp_, from, {to, bytes, counted, b});
  }
  void box_part_load_to(void* to, const void* from, int bytes, mbarrier* b, int counted,
                        std::uint32_t blocks) {
    run_.bulk_load_to(warp_, from, {to, bytes, counted, b}, blocks);
  }
  /// A product of the warp's group with its warp's part of operands. What comes of it is the caller's to model.
  void start_product(std::initializer_list<operand_bytes> operands) {
    run_.start_product(warp_, {operands.begin(), operands.size()});
  }
  template <int newest>
  void await_products() {
    run_.await_products(warp_, newest);
  }
  void bulk_store(void* to, const void* from, int bytes) { run_.bulk_store(warp_, to, from, bytes); }
  void bulk_commit() { run_.bulk_commit(warp_); }
  template <int newest = 0>
  void bulk_wait_read() {
    run_.bulk_wait_read(warp_, newest);
  }
  template <int newest = 0>
  void bulk_wait() {
    run_.bulk_wait(warp_, newest);
  }
  template <scope Scope>
  bool mbarrier_wait(mbarrier* b, parity p, wait_site where) {
    static_assert(Scope <= scope::cluster, "an mbarrier reaches no further than its cluster");
    where.expected = static_cast<std::uint64_t>(p);
    wait_request request;
    request.where = where;
    request.is_phase = true;
    request.predicate = &p;
    request.holds = [](const void* awaited, int, std::uint64_t word) {
      return sim::mbarrier_state::of(word).completed(*static_cast<const parity*>(awaited));
    };
    request.words[0] = {0, b, 0};
    request.num_words = 1;
    return run_.wait(warp_, order::acquire, Scope, sizeof(mbarrier), request);
  }
  /// mbarrier_wait_or_note (exec/mbarrier.hpp), of which the note is the model's own: who gave up has to report.
  template <scope Scope>
  bool mbarrier_wait_quietly(mbarrier* b, parity p, const wait_site& where) {
    const bool in_time = mbarrier_wait<Scope>(b, p, where);
    if (!in_time) run_.owe_report(warp_, where.where);
    return in_time;
  }
  void report_late(const wait_site&) { run_.owe_report(warp_, {}); }

 private:
  template <class F>
  auto on_lane(int lane, F f) {
    run_.set_lane(warp_, lane);
    if constexpr (std::is_void_v<decltype(f())>) {
      f();
      run_.set_lane(warp_, whole_warp);
    } else {
      const auto value = f();
      run_.set_lane(warp_, whole_warp);
      return value;
    }
  }

  static constexpr std::uint64_t unspecified = 0xa5a5a5a5a5a5a5a5;  // `seen` of a wait that gave up

  void arrive(verb what, mbarrier* b, int amount) {
    const scope reach = cluster_blocks() > 1 ? scope::cluster : scope::block;
    run_.perform(warp_,
                 {what, order::release, reach, sizeof(mbarrier), b, static_cast<std::uint64_t>(amount)});
  }

  template <class T>
  using word_of = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

  template <class T>
  static std::uint64_t bits(T value) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "an atomic word has 32 or 64 bits");
    return std::bit_cast<word_of<T>>(value);
  }
  template <class T>
  static T from_bits(std::uint64_t value) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "an atomic word has 32 or 64 bits");
    return std::bit_cast<T>(static_cast<word_of<T>>(value));
  }
  template <order Order, scope Scope, class T>
  std::uint64_t atomic(verb what, T* p, std::uint64_t value) const {
    return run_.perform(warp_, {what, Order, Scope, sizeof(T), p, value, nullptr});
  }

  execution& run_;
  int warp_;
};

static_assert(line_exec_context<context>);

}  // namespace baton::check
