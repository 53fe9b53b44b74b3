#pragma once
// Of a communicator's state what its layout need not be asked for.
#include "baton/expert_parallel.hpp"

namespace baton {

/// The rank, what its waits tell and whether it has given up; from any thread.
void look_at_waits(const world& ranks, ep_state& state);

/// Its sizes, in words.
std::string text_of(const ep_config& config, const world& ranks);

}  // namespace baton
