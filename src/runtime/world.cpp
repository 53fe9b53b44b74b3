#include "baton/world.hpp"

#include "runtime/on_cuda.hpp"
#include "runtime/stuck_report.hpp"
#include "runtime/world_state.hpp"
#include "sim/machine.hpp"

namespace baton {

int world::rank() const {
  return state_->rank;
}
int world::size() const {
  return state_->size;
}
device_kind world::device() const {
  return state_->device;
}
int world::device_index() const {
  return state_->device_index;
}
std::chrono::milliseconds world::deadline() const {
  return state_->deadline;
}

void world::synchronize(stream_ref stream) const {
  if (state_->device == device_kind::cuda)
    on_cuda::wait_for_stream(*state_, stream);
  else
    state_->machine->run(state_->rank);
  throw_if_stuck(*state_);
}

void world::all_gather(const void* mine, void* all, std::size_t bytes) const {
  bootstrap::gather_bytes(state_->peers(), mine, all, bytes);
}

}  // namespace baton
