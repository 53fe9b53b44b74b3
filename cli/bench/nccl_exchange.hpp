#pragma once
// NCCL's all-to-all of the same bytes, for comparison. Loaded at run time: baton does not need NCCL.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "baton/world.hpp"

namespace baton::cli {

class nccl_exchange {
 public:
  virtual ~nccl_exchange() = default;
  virtual std::string version() const = 0;
  /// An all-to-all: rank s sends bytes[s * ranks + d] bytes to rank d, s != d. Microseconds a time of each rank, measured
  /// as the exchange is: `rounds` of them behind each other, behind some that bring the ranks together.
  virtual std::vector<double> time(std::span<const std::uint64_t> bytes, int rounds) = 0;
};

/// A communicator of the ranks of `worlds`, one GPU each. Null, and why, where there cannot be one: no CUDA, ranks that
/// share a GPU, or no libnccl.so.2 (BATON_NCCL names one; otherwise the usual library path is searched).
/// Multicast stays off (NCCL_NVLS_ENABLE=0) unless the environment says otherwise.
/// @throws cuda_error  NCCL was found and failed
std::unique_ptr<nccl_exchange> open_nccl(std::span<const world> worlds, std::string& why_not);

}  // namespace baton::cli
