#pragma once
// Messages on their way, and what they wait for: links and network cards, each of which takes one at a time, in the order in
// which they come.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace baton::forecast {

/// Messages of some of a rank's tokens to one place, alike. A single one where `count` is 1: then all times are its own. Else
/// the others are evenly between the first and the last.
struct train {
  double first = 0, last = 0;  // us: when its first message, and its last, comes to what it has to pass next
  double cost = 0;             // us that each keeps that busy
  std::uint32_t count = 0;
  std::int32_t from = 0, to = 0;  // ranks, of this part of the way

  double work() const { return count * cost; }
};

/// What is alike and side by side: all ranks' links out, or all network cards' ways in.
struct crossing {
  std::vector<double> busy_us;  // [of each]
  double latency_us = 0;        // behind it
};

/// All trains pass through `through`, train i by number_of_train[i] of it. Single messages wait exactly as in a queue of which
/// the first to come is the first to go, ties by their order here; a train's messages between its first and last flow in as
/// evenly as water, so that what waits is a line between two events.
void pass(std::vector<train>& trains, crossing& through, const std::vector<std::int32_t>& number_of_train);

template <class Of>
void pass(std::vector<train>& trains, crossing& through, Of of) {
  std::vector<std::int32_t> of_train;
  of_train.reserve(trains.size());
  for (const train& t : trains) of_train.push_back(of(t));
  pass(trains, through, of_train);
}

}  // namespace baton::forecast
