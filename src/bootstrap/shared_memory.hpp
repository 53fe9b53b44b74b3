#pragma once
// Host memory that several processes map: an anonymous file in memory, known by its descriptor only.
#include <cstddef>
#include <memory>

#include "bootstrap/file_descriptor.hpp"

namespace baton::bootstrap {

/// A zero-filled file of `bytes` bytes, all of them taken from the machine, whose size nobody can change.
/// @throws out_of_memory, transport_error  the kernel refuses
file_descriptor create_shared_memory(std::size_t bytes);

/// Its pages go back to the machine, in every process that maps them, and read as zeros from then on.
/// @throws transport_error  the kernel refuses
void give_back_shared_memory(const file_descriptor& fd, std::size_t bytes);
/// Takes them again. @throws out_of_memory, transport_error  the kernel refuses
void retake_shared_memory(const file_descriptor& fd, std::size_t bytes);

/// Maps it, readable and writable; unmapped with the last copy of the pointer.
/// @throws transport_error  shorter than `bytes`, or its size can still be changed
/// @throws out_of_memory    no addresses left
std::shared_ptr<std::byte> map_shared_memory(const file_descriptor& fd, std::size_t bytes);

}  // namespace baton::bootstrap
