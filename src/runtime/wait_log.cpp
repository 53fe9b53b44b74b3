// What waits tell of themselves, as the host reads it.
#include <algorithm>
#include <cstring>

#include "baton/world.hpp"
#include "runtime/on_cuda.hpp"
#include "runtime/world_state.hpp"
#include "sim/machine.hpp"

namespace baton {
namespace {

/// Since the world was made.
std::vector<peer_wait> all_waits(const detail::world_state& state) {
  const std::unique_ptr<const wait_log> log = read_wait_log(state);
  std::vector<peer_wait> peers(static_cast<std::size_t>(state.size));
  const std::size_t counted = std::min(peers.size(), std::size_t{wait_log::num_peers});
  for (const wait_log::row& row : log->rows) {
    for (std::size_t p = 0; p < counted; ++p) {
      peers[p].ns += row.counters[p].ns;
      peers[p].waits += row.counters[p].waits;
    }
  }
  return peers;
}

}  // namespace

void read_beside_kernels(const detail::world_state& state, void* to, const void* from, std::size_t bytes) {
  if (state.device == device_kind::cuda)
    on_cuda::copy_now(state, to, from, bytes);
  else
    state.machine->look([&] { std::memcpy(to, from, bytes); });
}

std::unique_ptr<const wait_log> read_wait_log(const detail::world_state& state) {
  auto copy = std::make_unique<wait_log>();
  read_beside_kernels(state, copy.get(), state.reports.log_device, sizeof(wait_log));
  return copy;
}

void forget_waits(const detail::world_state& state) {
  for (wait_log::row* row = state.reports.log_device->rows;
       row != state.reports.log_device->rows + wait_log::num_rows; ++row) {
    if (state.device == device_kind::cuda)
      on_cuda::fill_now(state.device_index, row->waiting, 0, sizeof row->waiting);
    else
      state.machine->look([&] { std::memset(static_cast<void*>(row->waiting), 0, sizeof row->waiting); });
  }
}

peer_waits world::wait_times() const {
  const detail::world_state& s = state();
  peer_waits now{s.rank, all_waits(s), {}};
  const std::lock_guard lock{s.counted_from.mutex};
  const std::vector<peer_wait>& before = s.counted_from.before;
  for (std::size_t p = 0; p < before.size(); ++p) {
    now.peers[p].ns -= before[p].ns;
    now.peers[p].waits -= before[p].waits;
  }
  now.span = std::chrono::steady_clock::now() - s.counted_from.since;
  return now;
}

void world::reset_wait_times() const {
  const detail::world_state& s = state();
  std::vector<peer_wait> now = all_waits(s);
  const std::lock_guard lock{s.counted_from.mutex};
  s.counted_from.before = std::move(now);
  s.counted_from.since = std::chrono::steady_clock::now();
}

}  // namespace baton
