#pragma once
#include <string>

namespace baton {

/// Tries what ranks in separate processes need: an abstract Unix socket, a descriptor sent through it, and
/// shared memory behind that descriptor. Empty if all works; else what does not.
std::string process_sharing_problem();

}  // namespace baton
