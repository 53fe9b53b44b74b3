#pragma once
#include <optional>
#include <span>
#include <string>

#include "baton/world.hpp"

namespace baton::cli {

/// What a result must say about the GPUs it came from.
struct measured_gpus {
  std::string name;  // "4 x NVIDIA H200"
  int driver = 0;    // the CUDA version the driver supports, 13000 for 13.0
  int sms = 0;       // of one
};

/// None on the CPU.
std::optional<measured_gpus> facts_of(std::span<const world> worlds);

}  // namespace baton::cli
