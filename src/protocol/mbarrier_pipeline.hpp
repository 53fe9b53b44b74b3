#pragma once
// The mbarrier pipeline: stages that one side fills and another empties, in turn. All hand-overs by mbarriers are views of it:
// ring buffers (ring/mbarrier_sync.hpp), role pipelines (role_pipeline.hpp) and staged ones (staged_pipeline.hpp). They name its
// parts as their documents do, and differ in where barriers lie, in who arrives at them, and in how far waits reach.
//
//   cell                 completes after                           means
//   filled(stage, part)  the arrivals, and bytes, of one fill      the part holds what its readers wait for
//   free(stage, part)    the arrivals of all who empty it          it may be overwritten
//
//   part      event               becomes   by       barrier
//   free      await_free()        filling   filler   waits for free's phase n - 1                  (P2)
//   filling   arrivals at filled  filled    filler   or an engine in its name, in phase n          (P1)
//   filled    await_filled()      in use    reader   waits for filled's phase n                    (P1)
//   in use    arrivals at free    free      reader   or an engine in its name, in phase n          (P2)
//
// P1: what the n-th fill did before its arrivals happens before the return of the n-th wait for it.
// P2: what all readers did before their n-th arrivals happens before the return of the wait of lap n + 1.
// Start:    ends at stage 0. Who fills starts at odd parity: an untouched barrier counts the phase before its first as complete,
//           so that the first lap's waits fall through. At even where the first wait has to block.
// Progress: ends use parts in the same order, and every part that was awaited is told of, by as many arrivals as its barrier
//           counts. Parity is enough: nobody is a whole lap ahead of an unfinished phase.
// Reach:    how far waits order their warp's plain accesses. What an engine did is known wherever it is waited for.
// Checked:  as the views are, which see.
#include "base/macros.hpp"
#include "exec/mbarrier.hpp"
#include "protocol/pipeline_state.hpp"

namespace baton {

/// All barriers of fills, behind them as many of places that are free.
template <int stages, int parts = 1>
struct adjacent_barriers {
  static constexpr int total = stages * parts;
  mbarrier* base;

  BATON_FN mbarrier* filled(int stage, int part) const { return base + stage * parts + part; }
  BATON_FN mbarrier* free(int stage, int part) const { return filled(stage, part) + total; }
};

/// Each kind where it is said to be, with parts of its own.
template <int filled_parts, int free_parts>
struct separate_barriers {
  mbarrier *first_filled, *first_free;

  BATON_FN mbarrier* filled(int stage, int part) const { return first_filled + stage * filled_parts + part; }
  BATON_FN mbarrier* free(int stage, int part) const { return first_free + stage * free_parts + part; }
};

/// Where one side of a pipeline stands, and what it waits for there. Waits say false where they gave up.
template <int stages, class Barriers, scope Reach>
class pipeline_end {
 public:
  BATON_FN pipeline_end(const Barriers& barriers, const pipeline_state<stages>& at)
      : barriers_{barriers}, state_{at} {}

  BATON_FN int index() const { return state_.index; }
  BATON_FN baton::parity parity() const { return state_.parity; }
  BATON_FN void step() { state_.step(); }
  /// Past so many stages that are somebody else's; not more than there are.
  BATON_FN void skip(int n) { state_.skip(n); }
  BATON_FN mbarrier* filled(int part = 0) const { return barriers_.filled(index(), part); }
  BATON_FN mbarrier* free(int part = 0) const { return barriers_.free(index(), part); }
  /// The same of another stage.
  BATON_FN mbarrier* free_at(int stage, int part) const { return barriers_.free(stage, part); }

  /// For who reads: until the part has been filled (P1).
  template <async_exec_context X>
  BATON_FN bool await_filled(X& x, int part, const wait_site& where) const {
    return x.template mbarrier_wait<Reach>(filled(part), parity(), where);
  }
  /// For who fills: until the part is free (P2).
  template <async_exec_context X>
  BATON_FN bool await_free(X& x, int part, const wait_site& where) const {
    return x.template mbarrier_wait<Reach>(free(part), parity(), where);
  }
  /// Whether the part has been filled (P1, if so), without waiting. For contexts with groups.
  template <async_exec_context X>
  BATON_FN bool sees_filled(X& x, int part) const {
    return x.template mbarrier_is_over<Reach>(filled(part), parity());
  }

 private:
  Barriers barriers_;
  pipeline_state<stages> state_;
};

}  // namespace baton
