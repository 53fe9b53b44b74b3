#pragma once
// One phase of a round, dispatch or combine: which messages there are, in which order they leave, and when they have arrived.
#include <cstdint>
#include <vector>

#include "forecast/question.hpp"
#include "forecast/routed.hpp"
#include "forecast/sizes.hpp"
#include "forecast/trains.hpp"

namespace baton::forecast {

/// What crossed links of one kind.
struct traffic {
  std::uint64_t messages = 0, bytes = 0;  // without signals and ids
  std::uint64_t signals = 0;
  std::uint64_t id_messages = 0, id_bytes = 0;
};

/// The ways that a phase's messages pass: each GPU's links to its group, and each network card.
struct ways {
  crossing near_out, near_in, nic_out, nic_in;
  explicit ways(const question& q);
};

struct phase {
  explicit phase(const question& q);

  ways through;
  traffic near, far;
  std::vector<double> sent_us;          // [rank]: its last message has left
  std::vector<double> arrived_us;       // [rank]: the last message to it is there
  std::vector<double> put_bytes;        // [rank]: of tokens or sums that it puts
  std::vector<double> forwarded_bytes;  // [rank]: of tokens that were put to it for others, each once
};

/// Tokens of every rank go out at time 0: to the ranks of its group over its links, to others over its network card, each in the
/// order of tokens; ids before and, with layout per_expert, words behind them.
phase dispatch_phase(const question& q, const message_sizes& sizes, const routed& routing);
/// What experts made of them goes back: with per_expert in the order of rows, which is by expert and then by rank; with per_rank
/// in chunks by tokens' numbers, of all ranks in turn, in lines rank by rank, beginning with the one behind.
phase combine_phase(const question& q, const message_sizes& sizes, const routed& routing);

}  // namespace baton::forecast
