#pragma once
// The checker's context as a rank of the exchange has it: waits that may give up, a rank that may die, the promise
// that kernels of a rank that gave up touch nothing, and planted bugs, each at the access that it spoils.
//
// Death is a choice of the search before each step of a dying rank's warp. Then it stops, and so does every other warp at
// the next barrier that it shared with it.
#include <cstring>

#include "checks/exchange_memory.hpp"
#include "protocol/arrival.hpp"
#include "sim/check.hpp"

namespace baton::checks {

/// Thrown by a warp's last step.
struct rank_died {};

class exchange_context : public check::context {
 public:
  exchange_context(const check::context& x, check::program& p, const exchange_setting& e, exchange_world& w)
      : check::context{x}, program_{p}, setting_{e}, world_{w} {}

  /// A kernel of this rank begins; `waits`: for other ranks.
  void begin_kernel(bool waits) {
    is_void_ = mine().gave_up;
    waits_ = waits;
  }
  bool gave_up() const { return mine().gave_up; }
  /// The abort word, which may become true at any moment of a kernel. A rank that dies does so by a wait that ends, and a
  /// second communicator has an abort word of its own: there, as it was when the kernel began.
  bool has_given_up() const {
    if (is(exchange_bug::blind) || (waits_ && is(exchange_bug::waiting_is_blind))) return false;
    if (is(exchange_bug::alone)) return gave_up_;
    if (is(exchange_bug::time_out_is_arrival) || setting_.dies == rank() || mine().life > 0) return is_void_;
    return check::context::has_given_up() || is_void_;
  }
  exchange_rank_state& mine() const { return world_.ranks[static_cast<std::size_t>(rank())]; }

  template <class T>
  void write(T* p, const std::type_identity_t<T>& value) {
    if (!is_shared(p)) {
      begin_step();
      touch();
      if (is(exchange_bug::rounds_not_counted) &&
          is_within(p, mine().now.rounds(), sizeof(ep::round_counters)))
        return;
      if constexpr (sizeof(T) == sizeof(vec16)) {
        if (is(exchange_bug::payload_after_word) && is_peers_window(p)) return put_off(p, &value);
      }
    }
    check::context::write(p, value);
  }

  template <order Order, scope Scope, class T>
  void store(T* p, std::type_identity_t<T> value) {
    begin_step();
    touch();
    if constexpr (Scope == scope::system)
      store_word<Order>(p, value);
    else
      store_cell<Order, Scope>(p, value);
  }

  template <order Order, scope Scope, class T>
  bool count_to(T* p, std::type_identity_t<T> amount, std::type_identity_t<T> target) {
    begin_step();
    touch();
    T* at = moved(p);
    if (is_spoilt_relaxed(p)) return check::context::count_to<order::relaxed, Scope>(at, amount, target);
    switch (is_departed(p) ? exchange_bug::none : setting_.bug) {
      case exchange_bug::count_without_release:
        return check::context::count_to<order::acquire, Scope>(at, amount, target);
      case exchange_bug::count_without_acquire:
        return check::context::count_to<order::release, Scope>(at, amount, target);
      case exchange_bug::count_narrow:
        return check::context::count_to<Order, scope::block>(at, amount, target);
      default:
        return check::context::count_to<Order, Scope>(at, amount, target);
    }
  }

  /// Right where the source was spoilt; elsewhere the finding that it is to the checker.
  void refuse(const wait_site& where, std::uint64_t seen) {
    if (!mine().is_spoilt) return check::context::refuse(where, seen);
    gave_up_ = mine().gave_up = true;
  }

  template <order Order, scope Scope, class Word, class Done>
  bool wait(const lanes<Word*>& words, Done done, const wait_site& where,
            lanes<std::remove_const_t<Word>>& seen) {
    begin_step();
    wait_site at = where;
    at.patience = may_give_up_at(where) ? impatient : 1;
    bool ended = false;
    if constexpr (Scope == scope::system)
      ended = wait_for_words<Order>(words, done, at, seen);
    else
      ended = wait_for_flag<Order, Scope>(words, done, at, seen);
    if (ended || is(exchange_bug::time_out_is_arrival)) return true;
    gave_up_ = mine().gave_up = true;
    if (setting_.late >= 0)
      check::context::fetch_add<order::relaxed, scope::system>(world_.somebody_gave_up, 1u);
    return false;
  }

  void sync_block() {
    begin_step();
    check::context::sync_block();
    if (mine().block_died[static_cast<std::size_t>(block())]) die();
  }
  void next_kernel() {
    begin_step();
    check::context::next_kernel();
    for (const bool died : mine().block_died) {
      if (died) die();
    }
  }

  /// Of a warp of the rank that may die.
  int steps() const { return steps_; }

  /// For bounds::may_time_out.
  static bool may_time_out(const wait_site& at) { return at.patience == impatient; }

 private:
  static constexpr std::uint32_t impatient = 0;

  bool is(exchange_bug bug) const { return setting_.bug == bug; }
  static bool is_within(const void* p, const void* begin, std::size_t bytes) {
    const auto at = static_cast<const std::byte*>(p), first = static_cast<const std::byte*>(begin);
    return at >= first && at < first + bytes;
  }
  bool is_shared(const void* p) const { return is_within(p, shared(), exchange_shared_bytes); }
  bool is_peers_window(const void* p) const {
    return std::any_of(world_.ranks.begin(), world_.ranks.end(), [&](const exchange_rank_state& r) {
      return r.now.s.rank != rank() && is_within(p, r.now.window, ep::window_layout{r.now.s}.bytes);
    });
  }

  bool may_give_up_at(const wait_site& at) const {
    const bool gate =
        at.where == ep_gate_sites::offsets_ready() || at.where == ep_gate_sites::combine_ready();
    if (gate && is(exchange_bug::gate_waits_for_ever)) return false;
    if (gate && setting_.dies == rank()) return true;  // the block it waits for may be gone
    if (mine().life > 0 && !setting_.then.gives_up_again) return false;
    const bool is_sent = at.where == arrival_sites::dispatch() && at.epoch == 1 && setting_.late_round == 0;
    if (setting_.late == rank() && is_sent) return false;
    const may_give_up given = setting_.of_rank(setting_.gives_up, rank());
    return given == may_give_up::anywhere || (given == may_give_up::at_arrivals && !gate);
  }

  /// One step may be the last.
  void begin_step() {
    if (setting_.dies != rank()) return;
    ++steps_;
    if (check::context::either()) die();
  }
  /// Gives up: the barriers of the block count it as one that has left.
  void die() {
    lanes<std::uint32_t*> words{};
    lanes<std::uint32_t> seen;
    words[0] = world_.alive;
    check::context::wait<order::relaxed, scope::system>(
        words, [](int, std::uint32_t) { return false; }, {.where = "test", .patience = impatient}, seen);
    stop();
  }
  [[noreturn]] void stop() {
    mine().block_died[static_cast<std::size_t>(block())] = true;
    throw rank_died{};
  }

  void touch() { program_.require(!is_void_, "a kernel of a rank that gave up touches nothing"); }

  /// Arrival words: the only release stores at system scope.
  template <order Order, class T>
  void store_word(T* p, T value) {
    constexpr scope all = scope::system;
    if constexpr (Order == order::relaxed) {
      if (is(exchange_bug::words_not_restored)) return;
      return check::context::store<Order, all>(p, value);
    }
    if (is(exchange_bug::arrival_store_plain)) return check::context::write(p, value);
    if (is(exchange_bug::arrival_store_relaxed)) return check::context::store<order::relaxed, all>(p, value);
    if (is(exchange_bug::arrival_store_narrow)) return check::context::store<Order, scope::device>(p, value);
    check::context::store<Order, all>(p, value);
    for (const postponed& late : put_off_) check::context::write(late.at, late.value);
    put_off_.clear();
  }

  /// Gates that open, and cells that are put back.
  template <order Order, scope Scope, class T>
  void store_cell(T* p, T value) {
    const int flags = is_ready_flag(p) ? num_blocks() : 1;
    for (int i = 0; i < flags; ++i) {
      if constexpr (Order == order::relaxed) {
        if (!is(exchange_bug::cells_not_restored)) check::context::store<Order, Scope>(moved(p) + i, value);
      } else if (is(exchange_bug::gate_store_relaxed)) {
        check::context::store<order::relaxed, Scope>(p + i, value);
      } else {
        check::context::store<Order, Scope>(p + i, value);
      }
    }
  }

  template <order Order, class Word, class Done>
  bool wait_for_words(const lanes<Word*>& words, Done done, const wait_site& at,
                      lanes<std::remove_const_t<Word>>& seen) {
    if (is(exchange_bug::arrival_wait_relaxed))
      return check::context::wait<order::relaxed, scope::system>(words, done, at, seen);
    if (is(exchange_bug::arrival_wait_narrow))
      return check::context::wait<Order, scope::device>(words, done, at, seen);
    return check::context::wait<Order, scope::system>(words, done, at, seen);
  }

  template <order Order, scope Scope, class Word, class Done>
  bool wait_for_flag(lanes<Word*> words, Done done, const wait_site& at,
                     lanes<std::remove_const_t<Word>>& seen) {
    if (is_ready_flag(words[0])) words[0] += block();
    if (is(exchange_bug::gate_wait_relaxed))
      return check::context::wait<order::relaxed, Scope>(words, done, at, seen);
    return check::context::wait<Order, Scope>(words, done, at, seen);
  }

  bool is_ready_flag(const void* p) const {
    return is(exchange_bug::flag_per_block) && p == mine().now.counters().combine_ready();
  }
  bool is_departed(const void* p) const {
    const ep_local_sync_counters c = mine().now.counters();
    return p == c.dispatch_departed() || p == c.combine_departed();
  }
  bool is_spoilt_relaxed(const void* p) const {
    const ep_local_sync_counters c = mine().now.counters();
    switch (setting_.bug) {
      case exchange_bug::leave_relaxed:
        return is_departed(p);
      case exchange_bug::rank_election_relaxed:
        return is_within(p, c.rank_completion(0), 4 * max_gpus_per_node);
      case exchange_bug::reply_election_relaxed:
        return is_within(p, c.work(0), 4 * cells_of_work());
      default:
        return false;
    }
  }
  std::size_t cells_of_work() const { return static_cast<std::size_t>(setting_.ranks); }

  /// Where a cell lies: region C of the counters in region B, if that is the bug.
  template <class T>
  T* moved(T* p) const {
    const ep_local_sync_counters c = mine().now.counters();
    if (!is(exchange_bug::election_in_region_b) || !is_within(p, c.work(0), 4 * cells_of_work())) return p;
    return reinterpret_cast<T*>(c.rank_prefix(0)) + (reinterpret_cast<std::int32_t*>(p) - c.work(0));
  }

  void put_off(void* p, const void* value) {
    postponed late{static_cast<vec16*>(p), {}};
    std::memcpy(&late.value, value, sizeof(vec16));
    put_off_.push_back(late);
  }

  struct postponed {
    vec16* at;
    vec16 value;
  };

  check::program& program_;
  const exchange_setting& setting_;
  exchange_world& world_;
  bool is_void_ = false;  // this kernel began after its rank had given up
  bool waits_ = false;
  int steps_ = 0;
  bool gave_up_ = false;  // a wait of this warp did
  std::vector<postponed> put_off_;
};

}  // namespace baton::checks
