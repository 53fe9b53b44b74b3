#pragma once
// Worlds of the CPU machine with a chosen schedule, store delays and faults.
#include "baton/world.hpp"
#include "runtime/world_state.hpp"
#include "sim/machine.hpp"

namespace baton::test {

inline std::vector<world> simulated_worlds(int size, const sim::options& options) {
  auto worlds = world::local(size, device_kind::cpu);
  const auto machine = std::make_shared<sim::machine>(size, options);
  for (const world& w : worlds) w.state().machine = machine;
  return worlds;
}

}  // namespace baton::test
