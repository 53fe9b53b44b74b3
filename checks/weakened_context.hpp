#pragma once
// A context with one order or scope weakened: mutants of a protocol without touching its source.
#include <type_traits>

#include "exec/exec.hpp"

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

template <class Context, weakening Weakening>
class weakened : public Context {
 public:
  template <class T>
  using lanes = typename Context::template lanes<T>;

  explicit weakened(const Context& x) : Context{x} {}

  template <order Order, scope Scope, class T>
  void store(T* p, std::type_identity_t<T> value) {
    constexpr bool releasing = Order == order::release;
    if constexpr (Weakening == weakening::relaxed_store_lost && Order == order::relaxed) return;
    constexpr order ordering =
        Weakening == weakening::release_store_relaxed && releasing ? order::relaxed : Order;
    constexpr scope reach = Weakening == weakening::release_store_narrow && releasing ? narrow(Scope) : Scope;
    Context::template store<ordering, reach>(p, value);
  }

  template <order Order, scope Scope, class T>
  T fetch_add(T* p, std::type_identity_t<T> value) {
    return Context::template fetch_add<of_add(Order), of_add(Scope)>(p, value);
  }
  template <order Order, scope Scope, class T>
  bool count_to(T* p, std::type_identity_t<T> amount, std::type_identity_t<T> target) {
    return Context::template count_to<of_add(Order), of_add(Scope)>(p, amount, target);
  }

  template <order Order, scope Scope, class Word, class Done>
  bool wait(const lanes<Word*>& words, Done done, const wait_site& where,
            lanes<std::remove_const_t<Word>>& seen) {
    constexpr order ordering = Weakening == weakening::wait_relaxed ? order::relaxed : Order;
    constexpr scope reach = Weakening == weakening::wait_narrow ? narrow(Scope) : Scope;
    return Context::template wait<ordering, reach>(words, done, where, seen);
  }

 private:
  static constexpr order of_add(order o) {
    return Weakening == weakening::add_relaxed           ? order::relaxed
           : Weakening == weakening::add_without_release ? order::acquire
           : Weakening == weakening::add_without_acquire ? order::release
                                                         : o;
  }
  static constexpr scope of_add(scope s) { return Weakening == weakening::add_narrow ? narrow(s) : s; }
  static constexpr scope narrow(scope s) { return s == scope::system ? scope::device : scope::block; }
};

}  // namespace baton
