#pragma once
// Every rank's file descriptor to every other rank, for processes that have nothing but an all-gather.
#include <vector>

#include "bootstrap/file_descriptor.hpp"
#include "bootstrap/group.hpp"

namespace baton::bootstrap {

/// Result [r] is rank r's `mine`, duplicated into this process; [g.rank] stays empty. Collective. Bounded by
/// g.deadline; @throws transport_error naming the ranks that could not be reached or did not send.
std::vector<file_descriptor> exchange_descriptors(const group& g, int mine);

}  // namespace baton::bootstrap
