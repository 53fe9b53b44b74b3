#pragma once
// Ranks beyond the p2p group on GPUs: NVSHMEM, opened when it is first asked for.
#include <cstddef>
#include <memory>
#include <string>

#include "baton/world.hpp"
#include "runtime/nvshmem_calls.hpp"
#include "runtime/window.hpp"

namespace baton {

/// The module, which this process has joined as its rank of the world. Collective at first; then at no cost.
/// @throws unsupported  on all ranks: the module or NVSHMEM is not there, and how to install it; ranks that share a process; or a
///                      second world of other ranks
const nvshmem_calls& nvshmem_of(const world& world);

/// A window in the symmetric heap. peer(r) of a rank beyond the p2p group is where this rank's own window is, as NVSHMEM names
/// it. Its memory stays until the window goes: release() throws unsupported. Collective.
std::unique_ptr<symmetric_window> make_window_beyond(const world& world, std::size_t bytes,
                                                     int p2p_group_size, const std::string& purpose,
                                                     const std::string& knob);

/// Enqueues a kernel that puts, on `stream` of the rank's GPU. @throws cuda_error
void launch_beyond(const world& world, const nvshmem_launch& l);

}  // namespace baton
