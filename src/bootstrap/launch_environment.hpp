#pragma once
// What torchrun and similar launchers put into the environment.
#include <chrono>

#include "bootstrap/frames.hpp"

namespace baton::bootstrap {

struct launch_environment {
  int local_rank = 0;
  rendezvous_config ranks;  // with the deadline that the environment says
};

/// @throws invalid_argument  a variable is missing or no number: names it and what was found
/// @throws unsupported       the ranks are spread over several machines
launch_environment read_launch_environment();

/// BATON_DEADLINE_MS, else `otherwise`. @throws invalid_argument  not a number from 0 up
std::chrono::milliseconds deadline_from_environment(std::chrono::milliseconds otherwise);

}  // namespace baton::bootstrap
