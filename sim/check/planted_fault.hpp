#pragma once
// Faults that can be planted into the checker itself.
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>

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
  ends_end_with_one,        // an arrival does not tell what its warp has heard of is over
  meetings_tell_all,        // meet_cluster is sync_cluster
  meetings_tell_inits,      // it tells of inits of mbarriers that nobody fenced
  ends_told_by_scope,       // a wait at block scope does not hear of such an arrival what is over
  ends_told_to_all,         // what it hears is for stores, too, not for engines alone
  products_read_at_once,    // a product has read its operands when it is started
  products_see_warps,       // tensor cores see what a warp wrote without a proxy fence
  boxes_land_in_one,        // a box for several blocks lands in the first of them only
  own_arrivals_unheard,  // who awaits a phase does not hear that what it did before its own arrivals is over
};

struct named_fault {
  planted_fault fault;
  const char* name;
};
inline constexpr named_fault named_faults[] = {
    {planted_fault::clock_stands_still, "clock_stands_still"},
    {planted_fault::acquire_forgets, "acquire_forgets"},
    {planted_fault::relaxed_acquires, "relaxed_acquires"},
    {planted_fault::relaxed_releases, "relaxed_releases"},
    {planted_fault::fences_ignored, "fences_ignored"},
    {planted_fault::scopes_ignored, "scopes_ignored"},
    {planted_fault::newest_only, "newest_only"},
    {planted_fault::coherence_forgotten, "coherence_forgotten"},
    {planted_fault::rmw_breaks_release, "rmw_breaks_release"},
    {planted_fault::barrier_joins_nothing, "barrier_joins_nothing"},
    {planted_fault::reads_leave_no_trace, "reads_leave_no_trace"},
    {planted_fault::races_not_reversed, "races_not_reversed"},
    {planted_fault::writes_not_reversed, "writes_not_reversed"},
    {planted_fault::sleepers_never_wake, "sleepers_never_wake"},
    {planted_fault::blind_to_deadlock, "blind_to_deadlock"},
    {planted_fault::last_arrival_only, "last_arrival_only"},
    {planted_fault::phases_run_together, "phases_run_together"},
    {planted_fault::laps_not_reversed, "laps_not_reversed"},
    {planted_fault::proxies_ignored, "proxies_ignored"},
    {planted_fault::engines_are_one, "engines_are_one"},
    {planted_fault::loose_ends_ignored, "loose_ends_ignored"},
    {planted_fault::copies_bring_no_garbage, "copies_bring_no_garbage"},
    {planted_fault::garbage_is_zero, "garbage_is_zero"},
    {planted_fault::stores_in_any_order, "stores_in_any_order"},
    {planted_fault::lines_order, "lines_order"},
    {planted_fault::lines_come_together, "lines_come_together"},
    {planted_fault::predicates_not_reversed, "predicates_not_reversed"},
    {planted_fault::counted_stores_tell_all, "counted_stores_tell_all"},
    {planted_fault::stores_by_engines, "stores_by_engines"},
    {planted_fault::ends_tell_all, "ends_tell_all"},
    {planted_fault::ends_end_with_one, "ends_end_with_one"},
    {planted_fault::own_arrivals_unheard, "own_arrivals_unheard"},
    {planted_fault::meetings_tell_all, "meetings_tell_all"},
    {planted_fault::meetings_tell_inits, "meetings_tell_inits"},
    {planted_fault::ends_told_by_scope, "ends_told_by_scope"},
    {planted_fault::ends_told_to_all, "ends_told_to_all"},
    {planted_fault::products_read_at_once, "products_read_at_once"},
    {planted_fault::products_see_warps, "products_see_warps"},
    {planted_fault::boxes_land_in_one, "boxes_land_in_one"},
    {planted_fault::counts_not_reversed, "counts_not_reversed"},
    {planted_fault::counts_hear_each_other, "counts_hear_each_other"},
    {planted_fault::lanes_move_together, "lanes_move_together"},
    {planted_fault::nobody_hears_of_time_outs, "nobody_hears_of_time_outs"},
    {planted_fault::satisfied_waits_time_out, "satisfied_waits_time_out"},
};

inline constexpr auto planted_faults = [] {
  std::array<planted_fault, std::size(named_faults)> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = named_faults[i].fault;
  return all;
}();

constexpr const char* name(planted_fault fault) {
  for (const named_fault& named : named_faults)
    if (named.fault == fault) return named.name;
  return "none";
}

}  // namespace baton::check
