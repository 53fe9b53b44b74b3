#pragma once
// Faults that can be planted into the checker itself.
#include <array>
#include <cstdint>

namespace baton::check {

/// A fault planted into the checker itself, so that its own tests can show that they would notice.
enum class planted_fault : std::uint8_t {
  none,
  clock_stands_still,     // a warp's clock does not advance after a release
  acquire_forgets,        // an acquire learns nothing from the release it reads
  relaxed_acquires,       // every load acquires
  relaxed_releases,       // every store releases
  fences_ignored,         // a fence orders nothing
  scopes_ignored,         // every scope is the system's
  newest_only,            // a load returns the newest store only
  coherence_forgotten,    // a load may return a store older than one its warp has seen
  rmw_breaks_release,     // a read-modify-write does not carry on the release it reads
  barrier_joins_nothing,  // sync_block orders nothing
  reads_leave_no_trace,   // plain reads are not remembered
  races_not_reversed,     // the reduction does not run a racing write before an earlier read
  writes_not_reversed,    // the reduction does not run a racing write before an earlier write
  sleepers_never_wake,    // a sleeping write stays asleep when another write overtakes it
  blind_to_deadlock,      // a state in which everybody waits counts as the end
  last_arrival_only,      // a completed phase carries only what its last arrival releases
  phases_run_together,    // an arrival may count for either of two phases
  laps_not_reversed,      // the reduction does not complete a phase before an earlier wait for the one before
  proxies_ignored,        // the copy engine sees plain writes without a proxy fence
  engines_are_one,        // a block's copies see what another block's wrote without a proxy fence
  loose_ends_ignored,     // a block may end before what is on its way to it
  counts_not_reversed,    // the reduction does not let another count reach the target
  counts_hear_each_other,  // a count short of the target learns what earlier ones release, though it may come first
  nobody_hears_of_time_outs,  // has_given_up() stays false
  satisfied_waits_time_out,   // a wait may give up although its words have what it waits for
  lanes_move_together,        // what one lane of a warp does, all have done
  copies_bring_no_garbage,    // what a copy has written may be read, whatever it was
  garbage_is_zero,            // shared memory may be read before it is written
  stores_in_any_order,        // two stores to one word need no order
  lines_order,                // a line releases and acquires
  lines_come_together,        // the four lines of an access are seen all or none
  predicates_not_reversed,  // the reduction does not run a store before a wait whose predicate could have seen it
  counted_stores_tell_all,  // the count of a counted store releases what its lane did before
  stores_by_engines,        // the copy engine sees counted stores of its block without a proxy fence
  ends_tell_all,            // an arrival at block scope in another block tells of what was written
};

inline constexpr std::array planted_faults = {
    planted_fault::clock_stands_still,
    planted_fault::acquire_forgets,
    planted_fault::relaxed_acquires,
    planted_fault::relaxed_releases,
    planted_fault::fences_ignored,
    planted_fault::scopes_ignored,
    planted_fault::newest_only,
    planted_fault::coherence_forgotten,
    planted_fault::rmw_breaks_release,
    planted_fault::barrier_joins_nothing,
    planted_fault::reads_leave_no_trace,
    planted_fault::races_not_reversed,
    planted_fault::writes_not_reversed,
    planted_fault::sleepers_never_wake,
    planted_fault::blind_to_deadlock,
    planted_fault::last_arrival_only,
    planted_fault::phases_run_together,
    planted_fault::laps_not_reversed,
    planted_fault::proxies_ignored,
    planted_fault::engines_are_one,
    planted_fault::loose_ends_ignored,
    planted_fault::copies_bring_no_garbage,
    planted_fault::garbage_is_zero,
    planted_fault::stores_in_any_order,
    planted_fault::lines_order,
    planted_fault::lines_come_together,
    planted_fault::predicates_not_reversed,
    planted_fault::counted_stores_tell_all,
    planted_fault::stores_by_engines,
    planted_fault::ends_tell_all,
    planted_fault::counts_not_reversed,
    planted_fault::counts_hear_each_other,
    planted_fault::lanes_move_together,
    planted_fault::nobody_hears_of_time_outs,
    planted_fault::satisfied_waits_time_out,
};

constexpr const char* name(planted_fault fault) {
  switch (fault) {
    case planted_fault::clock_stands_still:
      return "clock_stands_still";
    case planted_fault::acquire_forgets:
      return "acquire_forgets";
    case planted_fault::relaxed_acquires:
      return "relaxed_acquires";
    case planted_fault::relaxed_releases:
      return "relaxed_releases";
    case planted_fault::fences_ignored:
      return "fences_ignored";
    case planted_fault::scopes_ignored:
      return "scopes_ignored";
    case planted_fault::newest_only:
      return "newest_only";
    case planted_fault::coherence_forgotten:
      return "coherence_forgotten";
    case planted_fault::rmw_breaks_release:
      return "rmw_breaks_release";
    case planted_fault::barrier_joins_nothing:
      return "barrier_joins_nothing";
    case planted_fault::reads_leave_no_trace:
      return "reads_leave_no_trace";
    case planted_fault::races_not_reversed:
      return "races_not_reversed";
    case planted_fault::writes_not_reversed:
      return "writes_not_reversed";
    case planted_fault::sleepers_never_wake:
      return "sleepers_never_wake";
    case planted_fault::blind_to_deadlock:
      return "blind_to_deadlock";
    case planted_fault::last_arrival_only:
      return "last_arrival_only";
    case planted_fault::phases_run_together:
      return "phases_run_together";
    case planted_fault::laps_not_reversed:
      return "laps_not_reversed";
    case planted_fault::proxies_ignored:
      return "proxies_ignored";
    case planted_fault::engines_are_one:
      return "engines_are_one";
    case planted_fault::loose_ends_ignored:
      return "loose_ends_ignored";
    case planted_fault::counts_not_reversed:
      return "counts_not_reversed";
    case planted_fault::counts_hear_each_other:
      return "counts_hear_each_other";
    case planted_fault::nobody_hears_of_time_outs:
      return "nobody_hears_of_time_outs";
    case planted_fault::satisfied_waits_time_out:
      return "satisfied_waits_time_out";
    case planted_fault::lanes_move_together:
      return "lanes_move_together";
    case planted_fault::copies_bring_no_garbage:
      return "copies_bring_no_garbage";
    case planted_fault::garbage_is_zero:
      return "garbage_is_zero";
    case planted_fault::stores_in_any_order:
      return "stores_in_any_order";
    case planted_fault::lines_order:
      return "lines_order";
    case planted_fault::lines_come_together:
      return "lines_come_together";
    case planted_fault::predicates_not_reversed:
      return "predicates_not_reversed";
    case planted_fault::counted_stores_tell_all:
      return "counted_stores_tell_all";
    case planted_fault::stores_by_engines:
      return "stores_by_engines";
    case planted_fault::ends_tell_all:
      return "ends_tell_all";
    default:
      return "none";
  }
}

}  // namespace baton::check
