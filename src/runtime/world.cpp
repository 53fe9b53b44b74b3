#include "baton/world.hpp"

#include <algorithm>
#include <utility>

#include "baton/error.hpp"
#include "runtime/on_cuda.hpp"
#include "runtime/stuck_report.hpp"
#include "runtime/world_state.hpp"
#include "sim/machine.hpp"

namespace baton {

namespace detail {

world_state::~world_state() {
  if (machine != nullptr) machine->release(std::move(owned));
}

void world_state::abandon_work() {
  if (machine != nullptr && machine->abandon(rank)) ++times_lost;
}

}  // namespace detail

namespace {

/// `run` runs work of the CPU machine.
template <class Run>
void run_queues(detail::world_state& s, Run run) {
  try {
    run(*s.machine);
  } catch (...) {
    ++s.times_lost;
    throw;
  }
}

constexpr int sms_of_the_cpu = 2;

}  // namespace

detail::world_state& world::state() const {
  if (state_ == nullptr) throw invalid_argument{"world: moved from; use the world that it was moved to"};
  return *state_;
}

int world::rank() const {
  return state().rank;
}
int world::size() const {
  return state().size;
}
device_kind world::device() const {
  return state().device;
}
int world::device_index() const {
  return state().device_index;
}
const std::vector<int>& world::hosts() const {
  return state().hosts;
}
std::chrono::milliseconds world::deadline() const {
  return state().deadline;
}

void world::synchronize(stream_ref stream) const {
  detail::world_state& s = state();
  if (s.device == device_kind::cuda)
    on_cuda::wait_for_stream(s, stream);
  else
    run_queues(s, [&](sim::machine& machine) { machine.run(s.rank, stream.native); });
  throw_if_stuck(s);
}

void world::chain(stream_ref earlier, stream_ref later) const {
  const detail::world_state& s = state();
  if (s.device == device_kind::cuda)
    on_cuda::chain(s, earlier, later);
  else
    s.machine->chain(s.rank, earlier.native, later.native);
}

void world::all_gather(const void* mine, void* all, std::size_t bytes) const {
  bootstrap::gather_bytes(state().peers(), mine, all, bytes);
}

void synchronize_all(const world& world) {
  detail::world_state& s = world.state();
  if (s.device == device_kind::cuda)
    on_cuda::wait_for_device(s);
  else
    run_queues(s, [&](sim::machine& machine) { machine.finish(s.rank); });
  throw_if_stuck(s);
}

int sms_of(const world& world) {
  return world.device() == device_kind::cuda ? on_cuda::num_sms(world.state()) : sms_of_the_cpu;
}

int sms_for(const world& world, int num_sms) {
  return num_sms == 0 ? sms_of(world) : std::min(num_sms, sms_of(world));
}

}  // namespace baton
