#pragma once
// Ranks beyond the p2p group on GPUs: NVSHMEM, opened when it is first asked for.
#include <cstddef>
#include <memory>
#include <string>

#include "baton/world.hpp"
#include "runtime/nvshmem_calls.hpp"
#include "runtime/window.hpp"

namespace baton {

/// A window in the symmetric heap, of the ranks that this process joins with the first one. peer(r) of a rank beyond the p2p
/// group is where this rank's own window is, as NVSHMEM names it. Its memory stays until the window goes. Collective.
/// @throws unsupported  on all ranks: the module or NVSHMEM is not there, and how to install it; ranks that share a process; or
///                      processes that are not in one set, or are other ranks of it
/// @throws out_of_memory  on all ranks: some GPU has no memory for the heap to grow
std::unique_ptr<symmetric_window> make_window_beyond(const world& world, std::size_t bytes,
                                                     int p2p_group_size, const std::string& purpose,
                                                     const std::string& knob);

/// Enqueues a kernel that puts, on `stream` of the rank's GPU. @throws cuda_error
void launch_beyond(const world& world, const nvshmem_launch& l);

}  // namespace baton
