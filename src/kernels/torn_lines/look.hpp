#pragma once
// The host's part of the look, for whichever kernel: tests have one that tears.
#include <string>
#include <vector>

#include "base/math.hpp"
#include "baton/device_buffer.hpp"
#include "baton/error.hpp"
#include "bootstrap/group.hpp"
#include "exec/kernel.hpp"
#include "kernels/torn_lines/kernel.hpp"
#include "kernels/torn_lines/launch.hpp"
#include "protocol/peer_window.hpp"
#include "runtime/nvshmem.hpp"
#include "runtime/window.hpp"
#include "runtime/world_state.hpp"

namespace baton::torn_lines {

/// The ranks of w's p2p group: lines are stores, which reach these.
inline p2p_group near_ranks(const world& w, int p2p_group_size) {
  return p2p_group::of(w.rank(), p2p_group_size > 0 ? p2p_group_size : w.size(), w.size());
}

/// As look(), with the kernel that `launch(grid, params)` enqueues on the rank's default stream.
template <class Launch>
std::vector<found> look_with(const world& w, const effort& asked, Launch launch, int p2p_group_size = 0) {
  constexpr int warps_on_gpu = kernel::bounds.max_threads / warp_lanes, warps_on_cpu = 4;
  constexpr int rounds_on_gpu = 4000, rounds_on_cpu = 8;  // for all ranks together; for each
  const memory_use use{"the look for torn lines", "free memory of the devices"};
  const bool on_cpu = w.device() == device_kind::cpu;
  const bootstrap::group all = w.state().peers();
  const int warps = on_cpu ? warps_on_cpu : warps_on_gpu;
  int blocks = 0;
  device_buffer<found> result;
  bootstrap::together(all, [&] {
    blocks = asked.blocks > 0 ? asked.blocks : sms_of(w);
    result = {w, 1, use};
  });
  for (const int of_rank : bootstrap::gather(all, blocks)) blocks = smaller(blocks, of_rank);
  const auto area = static_cast<std::size_t>(blocks * (warps / 2)) * line_access_bytes;
  const p2p_group near = near_ranks(w, p2p_group_size);
  if (near.end - near.first > max_ranks)
    throw unsupported{"looking for torn lines: " + std::to_string(near.end - near.first) +
                      " ranks in one p2p group, which has up to " + std::to_string(max_ranks) +
                      "; look in worlds of fewer"};
  const std::size_t bytes = static_cast<std::size_t>(w.size()) * area;
  const bool is_beyond = !on_cpu && near.end - near.first < w.size();
  const auto window = is_beyond ? make_window_beyond(w, bytes, p2p_group_size, use.purpose, use.knob)
                                : make_window(w, bytes, use.purpose, use.knob);

  params p;
  p.rank = w.rank() - near.first;
  p.num_ranks = near.end - near.first;
  p.rounds = asked.rounds > 0 ? asked.rounds : on_cpu ? rounds_on_cpu : rounds_on_gpu / p.num_ranks;
  p.looks = asked.looks > 0 ? asked.looks : 4 * p.rounds;
  p.result = result.data();
  for (int i = 0; i < p.num_ranks; ++i) {
    p.to[i] = window->peer(near.first + i) + static_cast<std::size_t>(w.rank()) * area;
    p.from[i] = window->peer(w.rank()) + static_cast<std::size_t>(near.first + i) * area;
  }
  found own;
  bootstrap::together(all, [&] {  // and so at about the same time
    launch(launch_grid{.blocks = blocks, .threads = warps * warp_lanes}, p);
    own = to_host(w, result.data(), 1).at(0);
    own.writers <<= near.first;
  });
  return bootstrap::gather(all, own);  // nobody writes here any more
}

}  // namespace baton::torn_lines
