#pragma once
// What is asked of the arguments, checked on the host before anything is enqueued.
#include "kernels/row_formats/launch.hpp"

namespace baton::row_formats {

/// @throws invalid_argument  the first thing that is wrong, by name and value
void require(const request& asked);

}  // namespace baton::row_formats
