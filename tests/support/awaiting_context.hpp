#pragma once
// A context for kernels of which something never comes.
#include "exec/shared_plan.hpp"
#include "sim/context.hpp"

namespace baton::test {

/// Who waits at `awaited` for what is lost gives up before those who wait for him. `Derived` leaves something out.
template <class Derived>
struct awaiting_context : sim::context {
  static inline site awaited = {};

  explicit awaiting_context(const sim::context& x) : sim::context{x} {}

  template <scope S>
  bool mbarrier_wait(mbarrier* b, parity p, const wait_site& where) {
    return sim::context::mbarrier_wait<S>(b, p, patient(where));
  }
  template <scope S>
  void mbarrier_wait_or_note(mbarrier* b, parity p, std::uint32_t which, const wait_site& where,
                             std::uint32_t* late) {
    sim::context::mbarrier_wait_or_note<S>(b, p, which, patient(where), late);
  }

 protected:
  /// Whether `b` is one of `count` barriers of this block, the last of its cluster.
  bool is_in_last_block(shared_array<mbarrier> of, int count, const mbarrier* b) {
    const mbarrier* first = of(*this);
    return this->cluster_block() == this->cluster_blocks() - 1 && b >= first && b < first + count;
  }

 private:
  static wait_site patient(wait_site where) {
    if (where.where != awaited) where.patience = 100;
    return where;
  }
};

}  // namespace baton::test
