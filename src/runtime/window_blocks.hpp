#pragma once
// How the blocks of a symmetric window reach all ranks of one process.
#include <cstddef>
#include <memory>
#include <vector>

#include "bootstrap/group.hpp"

namespace baton {

/// Every rank's block, shared: it lives until the last rank of the process lets go, so a rank that is torn
/// down early leaves no pointer dangling under a peer's kernel. Collective.
std::vector<std::shared_ptr<std::byte>> share_in_process(const bootstrap::group& g,
                                                         std::shared_ptr<std::byte> mine);

}  // namespace baton
