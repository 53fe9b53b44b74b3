#pragma once
// Zeroed host memory that asks first: Linux promises more than it has and kills the process later.
#include <cstddef>
#include <memory>
#include <string>

#include "baton/device_facts.hpp"
#include "bootstrap/file_descriptor.hpp"
#include "bootstrap/group.hpp"

namespace baton {

/// What this process may still take, by /proc/meminfo and by its control groups.
std::size_t host_bytes_free();
std::size_t host_bytes_total();

[[noreturn]] void throw_out_of_memory(const std::string& where, const memory_use& use, std::size_t needed,
                                      std::size_t free);

/// Collective: throws on all ranks if what all of them ask for is not free. All are of one machine, and each would
/// find the same bytes free.
void require_host_memory_of_all(const bootstrap::group& g, std::size_t bytes, const memory_use& use);

/// Zeroed memory that other processes can map. Throws out_of_memory.
bootstrap::file_descriptor allocate_shared(std::size_t bytes, const memory_use& use);

/// The same for what was given back. Throws out_of_memory.
void retake_shared(const bootstrap::file_descriptor& fd, std::size_t bytes, const memory_use& use);

/// The pages that lie wholly in `bytes` bytes of allocate_host go back to the machine; taken again, as zeros, when they are
/// touched. @throws unsupported  the kernel refuses
void give_back_pages(std::byte* at, std::size_t bytes);

/// Zeroed, 256-byte aligned, at least 256 bytes.
std::shared_ptr<std::byte> allocate_host(std::size_t bytes, const memory_use& use);

}  // namespace baton
