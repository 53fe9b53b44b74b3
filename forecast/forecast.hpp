#pragma once
// How long a round of the exchange takes on ranks that are not there: its messages, as routing and the layouts' code say, on
// links and network cards that each take one at a time; and what kernels take beside, as measured.
#include <cstdint>

#include "forecast/phase.hpp"
#include "forecast/question.hpp"
#include "forecast/sizes.hpp"

namespace baton::forecast {

/// What a phase takes beside its messages.
struct kernel_cost {
  double fixed_us;        // starting, routing, flags; all that one token takes
  double copy_gb_per_s;   // of what a rank reads and writes in its own memory
  double forward_us = 0;  // more with two levels: the way of a token or a sum through its forwarder
};
struct kernel_facts {
  kernel_cost dispatch, combine;
  double put_gb_per_s;  // that a GPU puts at where puts are its stores: on one host
};
/// What was measured on 2 and 4 GPUs (measured_kernels.cpp has which constant is of what).
kernel_facts measured_kernels(const question& q);

/// What a phase waited for most: of all links, cards and memories, the one that was busy for longest.
enum class bottleneck { none, links_out, links_in, cards_out, cards_in, memory };
const char* name(bottleneck b);

struct phase_forecast {
  double slowest_us = 0, median_us = 0;  // of the ranks: from its start on all of them to its end on one
  double messages_us = 0;                // until the last message anywhere is there
  double busiest_us = 0;                 // of `of`
  bottleneck of = bottleneck::none;
  traffic near, far;  // of all ranks
};

struct round_forecast {
  phase_forecast dispatch, combine;
  message_sizes sizes;
  int tokens_of_train = 1;  // 1: each message is followed by itself
  double round_us() const { return dispatch.slowest_us + combine.slowest_us; }
};

/// A pure function: no clock, no device, no random numbers but those of who chooses.
/// @throws invalid_argument  why_not(q)
round_forecast forecast_round(const question& q, const choices_of_ranks& route);

}  // namespace baton::forecast
