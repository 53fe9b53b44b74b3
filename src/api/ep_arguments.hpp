#pragma once
// What the calls of a communicator are given is looked at before anything is enqueued.
#include <cstddef>

#include "baton/expert_parallel.hpp"

namespace baton {

/// A communicator, as far as arguments have to fit it.
struct ep_bounds {
  const world& ranks;
  const ep_config& config;
  int num_sms;  // the most that a call may ask for
};

/// All throw invalid_argument: name, value, what was expected.
void require_aligned(const char* name, const void* pointer, std::size_t alignment);
void require_slot(const ep_config& config, int slot);
void require_sms(int num_sms, int most);
void require_input(const ep_bounds& to, const dispatch_input& in);

}  // namespace baton
