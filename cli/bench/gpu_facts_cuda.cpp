#include "cli/bench/gpu_facts.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <set>

#include "runtime/error_cuda.hpp"

namespace baton::cli {

std::optional<measured_gpus> facts_of(std::span<const world> worlds) {
  if (worlds[0].device() == device_kind::cpu) return std::nullopt;
  std::set<int> devices;
  for (const world& rank : worlds) devices.insert(rank.device_index());
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, *devices.begin()), "asking for the GPU's name");
  measured_gpus facts{fmt::format("{} x {}", devices.size(), properties.name), 0,
                      properties.multiProcessorCount};
  check(cudaDriverGetVersion(&facts.driver), "asking for the driver's version");
  return facts;
}

}  // namespace baton::cli
