#pragma once
// Which sources this code was built from. What is loaded from another file, or runs on another host, has to be of the same:
// parameters and windows are laid out by them.
#include <cstdint>

namespace baton {

/// A hash of src/ and include/ as they were compiled ([build_id.cmake](../../cmake/build_id.cmake)).
std::uint64_t build_id() noexcept;

}  // namespace baton
