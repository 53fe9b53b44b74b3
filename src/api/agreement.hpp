#pragma once
// Ranks that were given different configurations must find out at creation, not as wrong results.
#include "baton/expert_parallel.hpp"

namespace baton {

/// Collective. @throws invalid_argument  naming the first field that differs, the ranks and both values
void require_agreement(const world& w, const ep_config& config);

}  // namespace baton
