#pragma once
// The checker's context as a rank of the exchange has it: waits that may give up, a rank that may die, and the promise
// that kernels of a rank that gave up touch nothing, and of any rank no memory beyond its p2p group, which is not mapped there.
// With a planted bug, if the setting has one.
//
// Death is a choice of the search before each step of a dying rank's warp. Then it stops, and so does every other warp at
// the next barrier that it shared with it.
#include "checks/exchange_memory.hpp"
#include "checks/far_network.hpp"
#include "checks/planted_context.hpp"
#include "protocol/arrival.hpp"
#include "sim/check.hpp"

namespace baton::checks {

/// Thrown by a warp's last step.
struct rank_died {};

class exchange_context : public planted<far_context> {
  using base = planted<far_context>;

 public:
  exchange_context(const check::context& x, check::program& p, const exchange_setting& e, exchange_world& w)
      : base{{x, w.network.get()}, e.bug, p.names()}, program_{p}, setting_{e}, world_{w} {}

  void begin_kernel(site kernel) {
    is_void_ = mine().gave_up;
    kernel_ = kernel;
  }
  bool gave_up() const { return mine().gave_up; }
  /// The abort word, which may become true at any moment of a kernel. A rank that dies does so by a wait that ends, and a
  /// second communicator has an abort word of its own: there, as it was when the kernel began.
  bool has_given_up() {
    const change how = found(verbs::has_given_up, nullptr, {.where = kernel_});
    if (how == change::lost) return false;
    if (how == change::own) return gave_up_;
    if (setting_.dies == rank() || mine().life > 0) return is_void_;
    return check::context::has_given_up() || is_void_;
  }
  std::uint32_t gave_up_before() { return has_given_up() ? 1 : 0; }
  exchange_rank_state& mine() const { return world_.ranks[static_cast<std::size_t>(rank())]; }

  template <class T>
  void write(T* p, const std::type_identity_t<T>& value) {
    if (!is_shared(p)) touch(p);
    base::write(p, value);
  }
  template <order Order, scope Scope, class T>
  void store(T* p, std::type_identity_t<T> value) {
    touch(p);
    base::store<Order, Scope>(p, value);
  }
  template <order Order, scope Scope, class T>
  bool count_to(T* p, std::type_identity_t<T> amount, std::type_identity_t<T> target) {
    touch(p);
    return base::count_to<Order, Scope>(p, amount, target);
  }

  void put(int rank, std::byte* to, const std::byte* from, int bytes) {
    touch(nullptr);
    program_.require(has_met(), "lanes have met before they put");
    base::put(rank, to, from, bytes);
  }
  void signal(int rank, std::uint64_t* word, std::uint64_t value) {
    touch(nullptr);
    base::signal(rank, word, value);
  }
  template <class Of>
  void put_and_signal(std::uint32_t lanes, Of of) {
    touch(nullptr);
    program_.require(has_met(), "lanes have met before they put");
    base::put_and_signal(lanes, of);
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
    return in_time(base::wait<Order, Scope>(words, done, with_patience(where), seen));
  }

  template <scope Scope>
  bool mbarrier_wait(mbarrier* b, parity p, const wait_site& where) {
    begin_step();
    return in_time(base::template mbarrier_wait<Scope>(b, p, with_patience(where)));
  }
  void bulk_store(void* to, const void* from, int bytes) {
    touch(to);
    base::bulk_store(to, from, bytes);
  }
  void store_lines(std::byte* to, const lanes<vec16>& v) {
    touch(to);
    base::store_lines(to, v);
  }
  template <int n, class Done>
  bool wait_lines(const line_places<n>& from, Done done, const wait_site& where, lanes<vec16> (&seen)[n]) {
    begin_step();
    return in_time(base::wait_lines(from, done, with_patience(where), seen));
  }

  void sync_block() {
    begin_step();
    base::sync_block();
    if (mine().block_died[static_cast<std::size_t>(block())]) die();
  }
  void next_kernel() {
    begin_step();
    check::context::next_kernel();
    die_with_others();
  }
  void await_dependencies() {
    begin_step();
    base::await_dependencies();
    die_with_others();
    is_void_ = mine().gave_up;
  }

  /// Of a warp of the rank that may die.
  int steps() const { return steps_; }

  /// For bounds::may_time_out.
  static bool may_time_out(const wait_site& at) { return at.patience == impatient; }

 private:
  static constexpr std::uint32_t impatient = 0;

  bool is_shared(const void* p) const {
    const auto at = static_cast<const std::byte*>(p);
    return at >= shared() && at < shared() + exchange_shared_bytes;
  }

  wait_site with_patience(wait_site where) const {
    where.patience = may_give_up_at(where) ? impatient : 1;
    return where;
  }
  bool in_time(bool ended) {
    if (ended) return true;
    gave_up_ = mine().gave_up = true;
    if (setting_.late >= 0)
      check::context::fetch_add<order::relaxed, scope::system>(world_.somebody_gave_up, 1u);
    return false;
  }
  void die_with_others() {
    for (const bool died : mine().block_died) {
      if (died) die();
    }
  }

  bool may_give_up_at(const wait_site& at) const {
    const bool gate =
        at.where == ep_gate_sites::offsets_ready() || at.where == ep_gate_sites::combine_ready();
    if (gate && setting_.dies == rank()) return true;  // the block it waits for may be gone
    if (mine().life > 0 && !setting_.then.gives_up_again) return false;
    const bool is_sent = at.where == arrival_sites::dispatch() && at.epoch == 1 && setting_.late_round == 0;
    if (setting_.late == rank() && is_sent) return false;
    const may_give_up given = setting_.of_rank(setting_.gives_up, rank());
    if (given == at_sums) return at.where == site{"combine.sum"} || at.where == site{"combine.forward"};
    return given == anywhere || (given == at_arrivals && !gate);
  }

  /// One step may be the last.
  void begin_step() {
    if (setting_.dies != rank() || (setting_.dies_in != site{} && setting_.dies_in != kernel_)) return;
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

  /// A step that changes memory which others see; null: through the network.
  void touch(const void* p) {
    begin_step();
    program_.require(!is_void_, "a kernel of a rank that gave up touches nothing");
    program_.require(!is_beyond_group(p), "stores reach the ranks of the own group alone");
  }
  bool is_beyond_group(const void* p) const {
    if (world_.network == nullptr || p == nullptr) return false;
    const int size = setting_.p2p_group_size;
    const std::vector<exchange_memory>& all = world_.lives[mine().life];
    for (std::size_t r = 0; r < all.size(); ++r)
      if (all[r].is_in_window(p)) return static_cast<int>(r) / size != rank() / size;
    return false;
  }

  check::program& program_;
  const exchange_setting& setting_;
  exchange_world& world_;
  site kernel_;
  bool is_void_ = false;  // this kernel began after its rank had given up
  bool gave_up_ = false;  // a wait of this warp did
  int steps_ = 0;
};

}  // namespace baton::checks
