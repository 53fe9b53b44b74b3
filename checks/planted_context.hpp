#pragma once
// A context with one bug (planted_bug.hpp): mutants of protocols and kernels without touching their source.
#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/bits.hpp"
#include "checks/planted_bug.hpp"
#include "exec/far.hpp"
#include "exec/line.hpp"

namespace baton::checks {

template <exec_context Base>
class planted : public Base {
 public:
  template <class T>
  using lanes = typename Base::template lanes<T>;

  planted(const Base& x, const planted_bug& bug, cell_names names = {})
      : Base{x}, bug_{bug}, names_{std::move(names)} {}
  planted(const planted&) = delete;
  planted& operator=(const planted&) = delete;

  /// Whether a read that was late has found something else than the one in time.
  bool has_read_too_late() const { return has_read_too_late_; }

  template <class T>
  auto read(const T* p) {
    const auto value = Base::read(p);
    if (found(verbs::read, p) == change::late) read_again_later(p, value);
    return value;
  }
  template <class T>
  void write(T* p, const std::type_identity_t<T>& value) {
    const change how = found(verbs::write, p);
    if (how == change::lost) return;
    if (how == change::late) return late_.push_back([this, p, value] { Base::write(p, value); });
    Base::write(moved(how, p), value);
  }

  template <order Order, scope Scope, class T>
  void store(T* p, std::type_identity_t<T> value) {
    constexpr verbs kind = Order == order::relaxed ? verbs::relaxed_store : verbs::release_store;
    const change how = found(kind, p);
    if (how == change::late)
      return late_.push_back([this, p, value] { Base::template store<Order, Scope>(p, value); });
    if (how == change::plain) {
      Base::write(p, value);
    } else if (how != change::lost) {
      with<Order, Scope>(how, [&, this]<order O, scope S>() {
        this->Base::template store<O, S>(moved(how, p), shifted(how, value));
      });
    }
    after(kind);
  }
  template <order Order, scope Scope, class T>
  T fetch_add(T* p, std::type_identity_t<T> value) {
    const change how = found(verbs::add, p);
    T before{};
    if (how != change::lost) {
      before = with<Order, Scope>(how, [&, this]<order O, scope S>() {
        return this->Base::template fetch_add<O, S>(moved(how, p), shifted(how, value));
      });
    }
    if (Order != order::relaxed) after(verbs::add);
    return before;
  }
  template <order Order, scope Scope, class T>
  bool count_to(T* p, std::type_identity_t<T> amount, std::type_identity_t<T> target) {
    const change how = found(verbs::add, p);
    const T goal = shifted(found(verbs::target, p), target);
    const bool is_last =
        how != change::lost && with<Order, Scope>(how, [&, this]<order O, scope S>() {
          return this->Base::template count_to<O, S>(moved(how, p), shifted(how, amount), goal);
        });
    after(verbs::add);
    return is_last;
  }

  template <order Order, scope Scope, class Word, class Done>
  bool wait(const lanes<Word*>& words, Done done, const wait_site& where,
            lanes<std::remove_const_t<Word>>& seen) {
    using value_type = std::remove_const_t<Word>;
    const bool may_be = contains(bug_.what, verbs::wait);
    const change how = may_be ? found(verbs::wait, first_of(words), where) : change::none;
    if (how == change::none) return ended(Base::template wait<Order, Scope>(words, done, where, seen));
    lanes<Word*> awaited = words;
    wait_site at = where;
    if (how == change::endless) at.patience = std::numeric_limits<std::uint32_t>::max();
    for (int lane = 0; lane < warp_lanes; ++lane) {
      if (words[lane] == nullptr) continue;
      awaited[lane] = moved(how, words[lane], at.epoch);
      if (how != change::lost && (how != change::own || lane == Base::rank())) continue;
      seen[lane] = Base::template load<order::relaxed, Scope>(words[lane]);
      awaited[lane] = nullptr;
    }
    if (how == change::lost) return true;
    const auto is_done = [&](int lane, value_type value) {
      return done(lane, shifted(how, value, at.epoch));
    };
    const bool in_time = ended(with<Order, Scope>(how, [&, this]<order O, scope S>() {
      return this->Base::template wait<O, S>(awaited, is_done, at, seen);
    }));
    return in_time || how == change::taken_for_success;
  }
  // Lines, where the back end has them.
  void store_lines(std::byte* to, const lanes<vec16>& v) {
    const change how = found(verbs::store_lines, to);
    if (how == change::lost) return;
    if (how == change::late) return late_.push_back([this, to, v] { Base::store_lines(to, v); });
    if (how == change::torn) Base::store_lines(to, with_flags_of(v, Base::load_lines(to), 0));
    Base::store_lines(moved(how, to), how == change::shifted ? with_flags_of(v, v, bug_.by) : v);
  }
  template <int n, class Done>
  bool wait_lines(const line_places<n>& from, Done done, const wait_site& where, lanes<vec16> (&seen)[n]) {
    const change how = found(verbs::wait_lines, from.at[0], where);
    if (how == change::none) return ended(Base::wait_lines(from, done, where, seen));
    line_places<n> places = from;
    for (int i = 0; i < n; ++i) {
      places.at[i] = moved(how, from.at[i]);
      if (how == change::lost) seen[i] = Base::load_lines(from.at[i]);
    }
    if (how == change::lost) return true;
    wait_site at = where;
    if (how == change::endless) at.patience = std::numeric_limits<std::uint32_t>::max();
    return ended(Base::wait_lines(places, done, at, seen)) || how == change::taken_for_success;
  }
  void await_dependencies() {
    if (found(verbs::await_dependencies, nullptr) != change::lost) Base::await_dependencies();
  }

  // Ranks that stores do not reach, where the back end has them.
  void put(int rank, std::byte* to, const std::byte* from, int bytes) {
    const change how = found(verbs::put, from);
    if (how == change::late)
      return late_.push_back([this, rank, to, from, bytes] { Base::put(rank, to, from, bytes); });
    if (how != change::lost) Base::put(rank, to, moved(how, from), bytes);
  }
  void fence_puts() {
    if (found(verbs::fence_puts, nullptr) != change::lost) Base::fence_puts();
  }
  void signal(int rank, std::uint64_t* word, std::uint64_t value) {
    const change how = found(verbs::signal, word);
    if (how == change::own)
      Base::template store<order::release, scope::system>(word, value);
    else if (how != change::lost)
      Base::signal(rank, moved(how, word), shifted(how, value));
    after(verbs::signal);
  }
  /// As the put and the signal that it is: a put that is late comes behind the word.
  void put_and_signal(const signalled_put& right) {
    const change of_put = found(verbs::put, right.from), of_word = found(verbs::signal, right.word.at);
    signalled_put one = right;
    one.from = moved(of_put, right.from);
    one.word.at = moved(of_word, right.word.at);
    one.word.value = shifted(of_word, right.word.value);
    const bool has_put = of_put != change::late && of_put != change::lost;
    const bool has_word = of_word != change::own && of_word != change::lost;
    const auto put = [this, one] { Base::put(one.word.rank, one.to, one.from, one.bytes); };
    if (of_put == change::late) late_.push_back(put);
    if (has_put && has_word)
      Base::put_and_signal(one);
    else if (has_put)
      put();
    else if (has_word)
      Base::signal(one.word.rank, one.word.at, one.word.value);
    if (of_word == change::own)
      Base::template store<order::release, scope::system>(one.word.at, one.word.value);
    after(verbs::signal);
  }
  template <class Of>
  void put_and_signal(std::uint32_t lanes, Of of) {
    for (; lanes != 0; lanes &= lanes - 1) put_and_signal(of(lowest_bit(lanes)));
  }

  bool has_given_up() {
    const change how = found(verbs::has_given_up, nullptr);
    if (how == change::lost) return false;
    return how == change::own ? has_given_up_ : Base::has_given_up();
  }

  void sync_warp() {
    if (found(verbs::sync_warp, nullptr) != change::lost) Base::sync_warp();
  }
  void sync_block() {
    if (found(verbs::sync_block, nullptr) != change::lost) Base::sync_block();
  }

  // The asynchronous half, where the back end has it.
  void mbarrier_init(mbarrier* b, int arrivals) {
    const change how = found(verbs::mbarrier_init, b);
    if (how != change::lost) Base::mbarrier_init(b, shifted(how, arrivals));
  }
  template <scope Reach = scope::cluster>
  void mbarrier_arrive(mbarrier* b, int n) {
    const change how = found(verbs::mbarrier_arrive, b);
    if (how != change::lost) Base::template mbarrier_arrive<Reach>(b, shifted(how, n));
    after(verbs::mbarrier_arrive);
  }
  template <scope Reach = scope::cluster>
  void mbarrier_arrive_at(mbarrier* b, int block, int n) {
    const change how = found(verbs::mbarrier_arrive, b);
    if (how == change::own) {
      Base::template mbarrier_arrive<Reach>(b, n);
    } else if (how == change::narrow) {
      Base::template mbarrier_arrive_at<scope::block>(b, block, n);
    } else if (how != change::lost) {
      Base::template mbarrier_arrive_at<Reach>(b, block, shifted(how, n));
    }
    after(verbs::mbarrier_arrive);
  }
  template <scope Reach = scope::cluster>
  void mbarrier_arrive_expect(mbarrier* b, int bytes) {
    const change how = found(verbs::mbarrier_expect, b);
    if (how != change::lost) Base::template mbarrier_arrive_expect<Reach>(b, shifted(how, bytes));
  }
  /// `Reached`: Base::reached_block, of those that have it.
  template <class Reached, class T>
  void store_counted(Reached there, T* to, const std::type_identity_t<T>& value, mbarrier* b) {
    const change how = found(verbs::store_counted, to);
    if (how == change::lost) return;
    if (how == change::late)
      return late_.push_back([this, there, to, value, b] { Base::store_counted(there, to, value, b); });
    Base::store_counted(how == change::own ? Base::reach(Base::cluster_block()) : there, moved(how, to),
                        value, b);
  }
  void fence_proxy_async() {
    if (found(verbs::fence_proxy, nullptr) != change::lost) Base::fence_proxy_async();
  }
  void fence_proxy_async_global() {
    if (found(verbs::fence_proxy_global, nullptr) != change::lost) Base::fence_proxy_async_global();
  }
  void bulk_load(void* to, const void* from, int bytes, mbarrier* b) {
    const change how = found(verbs::bulk_load, from);
    if (how != change::lost) Base::bulk_load(to, moved(how, from), bytes, b);
  }
  void bulk_store(void* to, const void* from, int bytes) {
    const change how = found(verbs::bulk_store, to);
    if (how != change::lost) Base::bulk_store(moved(how, to), from, bytes);
  }
  template <int newest = 0>
  void bulk_wait_read() {
    const change how = found(verbs::bulk_wait_read, nullptr);
    if (how == change::shifted) return Base::template bulk_wait_read<newest + 1>();
    if (how != change::lost) Base::template bulk_wait_read<newest>();
  }
  template <int newest = 0>
  void bulk_wait() {
    const change how = found(verbs::bulk_wait, nullptr);
    if (how == change::shifted) return Base::template bulk_wait<newest + 1>();
    if (how != change::lost) Base::template bulk_wait<newest>();
  }
  template <scope Scope>
  bool mbarrier_wait(mbarrier* b, parity p, const wait_site& where) {
    const change how = found(verbs::mbarrier_wait, b, where);
    if (how == change::lost) return true;
    const bool is_other = shifted(how, 0, where.epoch) % 2 != 0;
    return ended(Base::template mbarrier_wait<Scope>(b, is_other ? !p : p, where));
  }
  template <scope Scope>
  bool mbarrier_wait_quietly(mbarrier* b, parity p, const wait_site& where) {
    const change how = found(verbs::mbarrier_wait, b, where);
    if (how == change::lost) return true;
    const parity awaited = shifted(how, 0, where.epoch) % 2 != 0 ? !p : p;
    return ended(how == change::narrow ? Base::template mbarrier_wait_quietly<scope::block>(b, awaited, where)
                                       : Base::template mbarrier_wait_quietly<Scope>(b, awaited, where));
  }

 protected:
  /// What to do differently about this access.
  change found(verbs what, const void* at) {
    if (contains(bug_.what, what)) [[unlikely]]
      return fits(at, {});
    return change::none;
  }
  change found(verbs what, const void* at, const wait_site& where) {
    if (contains(bug_.what, what)) [[unlikely]]
      return fits(at, where);
    return change::none;
  }
  /// A value as it is with the bug.
  template <class T>
  T shifted(change how, T value, std::uint32_t epoch = 0) const {
    return how == change::shifted ? static_cast<T>(value + static_cast<T>(amount(epoch))) : value;
  }

 private:
  /// `data` with the flags of `v`, which `by` is added to.
  static lanes<vec16> with_flags_of(const lanes<vec16>& v, lanes<vec16> data, std::int64_t by) {
    for (int lane = lanes_of_line - 1; lane < warp_lanes; lane += lanes_of_line) {
      std::uint64_t flag = v[lane].word[2] | std::uint64_t{v[lane].word[3]} << 32;
      flag += static_cast<std::uint64_t>(by);
      data[lane].word[2] = static_cast<std::uint32_t>(flag);
      data[lane].word[3] = static_cast<std::uint32_t>(flag >> 32);
    }
    return data;
  }
  template <class T, class Value>
  [[gnu::noinline]] void read_again_later(const T* p, const Value& value) {
    late_.push_back([this, p, value] {
      const auto now = Base::read(p);
      has_read_too_late_ |= std::memcmp(&now, &value, sizeof(T)) != 0;
    });
  }
  [[gnu::noinline]] change fits(const void* at, const wait_site& where) {
    if (bug_.where != site{} && bug_.where != where.where) return change::none;
    if (bug_.epoch >= 0 && static_cast<std::uint32_t>(bug_.epoch) != where.epoch) return change::none;
    const auto is = [](int wanted, int number) { return wanted < 0 || wanted == number; };
    if (!is(bug_.rank, Base::rank()) || !is(bug_.block, Base::block()) || !is(bug_.warp, Base::warp()))
      return change::none;
    if (bug_.cell != nullptr && !is_cell(at)) return change::none;
    return bug_.time == 0 || ++times_ == bug_.time ? bug_.how : change::none;
  }
  bool is_cell(const void* at) const {
    const std::string name = names_ && at != nullptr ? names_(at) : "";
    for (std::string_view rest = bug_.cell; !rest.empty() && !name.empty();) {
      const std::size_t end = std::min(rest.find(", "), rest.size());
      if (name.starts_with(rest.substr(0, end))) return true;
      rest.remove_prefix(std::min(end + 2, rest.size()));
    }
    return false;
  }
  static const void* first_of(const auto& words) {
    for (int lane = 0; lane < warp_lanes; ++lane)
      if (words[lane] != nullptr) return words[lane];
    return nullptr;
  }

  std::int64_t amount(std::uint32_t epoch) const {
    return bug_.by * (bug_.each == per::lap ? epoch : bug_.each == per::block ? Base::block() : 1);
  }
  template <class T>
  T* moved(change how, T* p, std::uint32_t epoch = 0) const {
    if (how != change::moved) return p;
    return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(p) +
                                static_cast<std::uintptr_t>(amount(epoch)));
  }

  /// f with the order and the scope that the change leaves.
  template <order Order, scope Scope, class F>
  static auto with(change how, F f) {
    constexpr bool both = Order == order::acq_rel;
    constexpr order unreleased = both ? order::acquire : Order == order::release ? order::relaxed : Order;
    constexpr order unacquired = both ? order::release : Order == order::acquire ? order::relaxed : Order;
    constexpr scope narrower = Scope == scope::system ? scope::device : scope::block;
    switch (how) {
      case change::relaxed:
        return f.template operator()<order::relaxed, Scope>();
      case change::without_release:
        return f.template operator()<unreleased, Scope>();
      case change::without_acquire:
        return f.template operator()<unacquired, Scope>();
      case change::narrow:
        return f.template operator()<Order, narrower>();
      default:
        return f.template operator()<Order, Scope>();
    }
  }

  bool ended(bool in_time) {
    has_given_up_ |= !in_time;
    after(verbs::waits);
    return in_time;
  }
  void after(verbs done) {
    if (late_.empty() || !contains(bug_.until, done)) return;
    for (const std::function<void()>& access : std::exchange(late_, {})) access();
  }

  planted_bug bug_;
  cell_names names_;
  int times_ = 0;
  bool has_given_up_ = false;  // a wait of this warp has
  bool has_read_too_late_ = false;
  std::vector<std::function<void()>> late_;
};

}  // namespace baton::checks
