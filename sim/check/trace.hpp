#pragma once
// What happened, in order: the counterexample.
#include <cstdint>
#include <string>
#include <vector>

#include "sim/check/names.hpp"
#include "sim/check/operation.hpp"

namespace baton::check {

struct event {
  position who;
  verb what = verb::none;
  order ordering = order::relaxed;
  scope reach = scope::system;
  const void* address = nullptr;
  std::size_t bytes = 0;
  std::uint64_t value = 0;  // stored, loaded or seen; of a read-modify-write: the old value
  std::uint64_t operand = 0;
  bool stale = false;      // a newer value existed
  bool timed_out = false;  // the wait gave up
  site where = {};
  bool is_phase = false;  // a wait for an mbarrier
};

/// One line a step; neighbouring plain accesses of one warp are joined.
std::string readable(const std::vector<event>& trace, const name_table& names);

/// For a trace that ends in a race: the edge that is not there, and what comes nearest to it. Empty if there is none to tell.
std::string missing_edge(const std::vector<event>& trace, const name_table& names);

}  // namespace baton::check
