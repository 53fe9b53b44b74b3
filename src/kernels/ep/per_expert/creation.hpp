#pragma once
// The last step of a communicator's creation, the same for the library and for the checker's ranks.
#include "baton/expert_parallel.hpp"
#include "kernels/ep/per_expert/endpoint.hpp"

namespace baton::ep {

/// What a rank's host does with the memory of a new communicator, which is zeroed and mapped by all ranks. `host` has
/// fill(at, byte, bytes), and together(step): does the step and returns once all ranks have done theirs, fills included.
template <class Host>
void make_ready(const endpoint& end, arrival_policy policy, const Host& host) {
  host.together([&] {  // nobody sends to a peer that has not initialised its words
    host.fill(end.errors(), 0xff, sizeof(device_errors));
    if (policy != arrival_policy::sentinel) return;
    const window_layout window{end.s};
    host.fill(end.of_rank<std::byte>(end.s.rank, &window_layout::dispatch_count), 0xff,
              window.bytes - window.dispatch_count);
  });
}

}  // namespace baton::ep
