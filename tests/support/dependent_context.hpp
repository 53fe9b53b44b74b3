#pragma once
// A context for kernels that begin early, while those before them in the stream still run.
#include <cstddef>

#include "sim/context.hpp"

namespace baton::test {

/// Counts what a warp reads or writes outside of shared memory before it has waited for the kernels before its own. What relaxed
/// loads see until then is nothing that lasts.
struct dependent_context : sim::context {
  static inline int early = 0;   // since somebody made it 0
  static inline int waited = 0;  // warps that did

  explicit dependent_context(const sim::context& x) : sim::context{x} {}

  void await_dependencies() {
    waits_ = false;
    ++waited;
  }
  template <class T>
  T read(const T* at) {
    look(at);
    return sim::context::read(at);
  }
  template <class T>
  void write(T* at, const std::type_identity_t<T>& value) {
    look(at);
    sim::context::write(at, value);
  }
  template <order O, scope S, class Word>
  Word load(const Word* at) {
    return waits_ ? Word{} : sim::context::load<O, S>(at);
  }
  void box_load(void* to, const tensor_map& map, const box_place& place, mbarrier* b) {
    early += waits_;
    sim::context::box_load(to, map, place, b);
  }
  void box_load_once(void* to, const tensor_map& map, const box_place& place, mbarrier* b) {
    box_load(to, map, place, b);
  }
  void box_load_to(void* to, const tensor_map& map, const box_place& place, mbarrier* b,
                   std::uint32_t blocks) {
    early += waits_;
    sim::context::box_load_to(to, map, place, b, blocks);
  }
  void ask_for_box(const tensor_map&, const box_place&) { early += waits_; }

 private:
  /// No block has more.
  static constexpr std::ptrdiff_t shared_bytes = 227 * 1024;
  void look(const void* at) {
    const std::ptrdiff_t from = static_cast<const std::byte*>(at) - shared();
    early += waits_ && (from < 0 || from >= shared_bytes);
  }

  bool waits_ = true;
};

}  // namespace baton::test
