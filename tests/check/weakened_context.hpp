#pragma once
// The checker's context with one order or scope weakened: mutants of a protocol without touching its source.
#include "sim/check.hpp"

namespace baton {

enum class weakening {
  none,
  release_store_relaxed,
  release_store_narrow,  // system scope becomes device, device becomes block
  relaxed_store_lost,
  wait_relaxed,
  wait_narrow,
  add_relaxed,
  add_without_release,
  add_without_acquire,
  add_narrow,
};

template <weakening Weakening>
class weakened : public check::context {
 public:
  explicit weakened(const check::context& x) : check::context{x} {}

  template <order Order, scope Scope, class T>
  void store(T* p, std::type_identity_t<T> value) const {
    constexpr bool releasing = Order == order::release;
    if constexpr (Weakening == weakening::relaxed_store_lost && Order == order::relaxed) return;
    constexpr order ordering =
        Weakening == weakening::release_store_relaxed && releasing ? order::relaxed : Order;
    constexpr scope reach = Weakening == weakening::release_store_narrow && releasing ? narrow(Scope) : Scope;
    check::context::store<ordering, reach>(p, value);
  }

  template <order Order, scope Scope, class T>
  T fetch_add(T* p, std::type_identity_t<T> value) const {
    constexpr order ordering = Weakening == weakening::add_relaxed           ? order::relaxed
                               : Weakening == weakening::add_without_release ? order::acquire
                               : Weakening == weakening::add_without_acquire ? order::release
                                                                             : Order;
    constexpr scope reach = Weakening == weakening::add_narrow ? narrow(Scope) : Scope;
    return check::context::fetch_add<ordering, reach>(p, value);
  }

  template <order Order, scope Scope, class Word, class Done>
  bool wait(const lanes<Word*>& words, Done done, const wait_site& where,
            lanes<std::remove_const_t<Word>>& seen) const {
    constexpr order ordering = Weakening == weakening::wait_relaxed ? order::relaxed : Order;
    constexpr scope reach = Weakening == weakening::wait_narrow ? narrow(Scope) : Scope;
    return check::context::wait<ordering, reach>(words, done, where, seen);
  }

 private:
  static constexpr scope narrow(scope s) { return s == scope::system ? scope::device : scope::block; }
};

static_assert(exec_context<weakened<weakening::none>>);

}  // namespace baton
