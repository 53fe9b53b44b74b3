#pragma once
// What an all-to-all of NVSHMEM's own takes, for comparison: of its host library, which ranks beyond the p2p group have opened.
#include <cstddef>
#include <memory>
#include <string>

#include "baton/world.hpp"

namespace baton::cli {

class nvshmem_all_to_all {
 public:
  virtual ~nvshmem_all_to_all() = default;
  virtual std::string version() const = 0;
  /// Every rank sends `bytes` to every rank, itself among them. Collective, in the order of the stream.
  virtual void enqueue(std::size_t bytes, stream_ref stream) = 0;
  /// Runs one of so many bytes. Empty: every rank has every rank's.
  virtual std::string first_wrong(std::size_t bytes) = 0;
};

/// With room for `most_bytes` from each rank to each. Collective, by the ranks of a communicator with ranks beyond its p2p group,
/// which has been created. Null on the CPU and where the library has no such call, and why.
std::unique_ptr<nvshmem_all_to_all> open_nvshmem_all_to_all(const world& own, std::size_t most_bytes,
                                                            std::string& why_not);

}  // namespace baton::cli
