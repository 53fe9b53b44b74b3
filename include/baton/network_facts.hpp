#pragma once
// What ranks beyond the p2p group need on GPUs, as far as this machine has it.
#include <cstdint>
#include <string>
#include <vector>

namespace baton {

/// NVSHMEM, and baton's module for it, are opened to be asked for their versions; nothing else is done with them.
struct network_facts {
  std::string nvshmem;          // path of its host library; empty: it is not here
  std::string nvshmem_version;  // "3.4.5"
  std::string nvshmem_problem;  // as the loader says; empty: it is here
  std::string module;           // path of libbaton_nvshmem.so; empty: it cannot be used
  std::string module_version;   // of NVSHMEM, with which it was built
  std::string module_problem;
  bool is_told = false;            // BATON_NVSHMEM or BATON_NVSHMEM_MODULE is set
  std::vector<std::string> ports;  // "mlx5_0 port 1: InfiniBand, ACTIVE"
  int active_ports = 0;
  bool opens_verbs = false;  // this process may open a device of /dev/infiniband
  bool has_peermem = false;  // the kernel module nvidia_peermem is loaded
  bool gpus_put = false;     // NVSHMEM_IB_ENABLE_IBGDA; else a thread of NVSHMEM's on the host does for them
  std::uint64_t lockable_bytes = 0;  // that this process may lock in memory; 2^64-1: no limit
  /// NVSHMEM's symmetric heap, in which windows of ranks beyond the group lie, grows with them, or all of it is taken at first.
  bool heap_grows = true;  // unless NVSHMEM_DISABLE_CUDA_VMM is set
  std::string
      heap_variable;  // which says how large it may be: NVSHMEM_MAX_MEMORY_PER_GPU, else NVSHMEM_SYMMETRIC_SIZE
  std::uint64_t most_heap_bytes{};  // of a rank; 0: the variable says no size
};

/// `root`: the folder in which dev and sys are.
network_facts read_network_facts(const std::string& root = "/");

}  // namespace baton
