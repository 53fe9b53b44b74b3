#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "baton/ep_membership.hpp"
#include "baton/wait_times.hpp"

namespace baton {

/// Warps of a rank that wait for the same thing, or did when they gave up.
struct wait_in_progress {
  std::string site;         // where in the protocol, as stuck names it
  int peer = -1;            // the rank that has not acted yet
  std::uint32_t round = 0;  // in which they wait, from 1
  int warps = 0;
  std::chrono::nanoseconds waited{0};  // the longest of them, when it last said so
  int block = 0, warp = 0;             // and its place, what ends its wait, and what it saw instead
  std::uint64_t expected = 0, seen = 0;
};

/// The last rounds of which a rank has all that tells it what a peer sends: ids or counts of dispatch, counts of combine. Rounds
/// count from 1; 0: none yet.
struct heard_of_peer {
  std::uint64_t dispatch = 0;
  std::uint64_t combine = 0;  // layout per_expert only: with per_rank sums come one by one
};

/// What expert_parallel::dump_state() finds: a rank's view of a communicator, whatever its kernels are doing.
struct ep_state {
  int rank = 0, num_ranks = 1;
  std::string configuration;  // in words
  ep_membership members;
  std::string due;  // the next call of a round, as the host made them
  std::uint64_t rounds_called =
      0;  // rounds that the host has begun; of a captured graph's only the captured one
  std::uint64_t rounds_dispatched = 0;  // that the device has completed
  std::uint64_t rounds_combined = 0;
  bool has_given_up = false;         // a wait outlived its deadline, or refused what it found
  std::string stuck;                 // what it left, if the host has not thrown it yet
  std::vector<heard_of_peer> heard;  // [num_ranks]
  std::vector<wait_in_progress>
      waits;          // for peers, most warps first. On a GPU those of over 64 looks, some 20 us
  peer_waits waited;  // by the world's ranks, of all its communicators

  /// The round that the device is in, or the next one.
  std::uint64_t round() const { return rounds_dispatched + (rounds_combined == rounds_dispatched ? 1 : 0); }
};

/// Lines for people, the missing ranks by number.
std::string to_text(const ep_state& state);
/// The same in one JSON object; 64-bit words as hexadecimal strings.
std::string to_json(const ep_state& state);

}  // namespace baton
