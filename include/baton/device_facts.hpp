#pragma once
// What this machine has. Reading the facts starts no work on any device and changes no setting.
#include <cstdint>
#include <string>
#include <vector>

#include "baton/error.hpp"
#include "baton/world.hpp"

namespace baton {

struct host_facts {
  std::string cpu;
  int cores = 0;  // that this process may use
  std::uint64_t memory_bytes = 0;
  std::uint64_t memory_free_bytes = 0;
  std::uint64_t shm_bytes = 0;  // of /dev/shm; 0: there is none
  std::string kernel;
};

struct gpu_facts {
  int ordinal = 0;
  std::string name;
  std::string bus_id;
  int major = 0, minor = 0;  // compute capability
  int num_sms = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t memory_free_bytes = 0;
  int nvlinks = -1;                 // active links; -1: not known
  bool exports_memory = false;      // to other processes, by file descriptor
  bool exports_dma_buf = false;     // to network cards, by DMA-BUF
  bool orders_card_writes = false;  // its kernels see what network cards write there in order
  bool has_kernels = false;         // baton's kernels run on it
  std::vector<bool> reaches;        // [ordinal]: peer access; itself true
};

struct device_facts {
  host_facts host;
  bool built_with_cuda = false;
  std::string driver;               // "580.95.05"; empty: no NVIDIA driver
  int driver_cuda = 0;              // newest CUDA the driver serves, 13000 for 13.0; 0: not known
  int runtime_cuda = 0;             // CUDA this build carries
  std::string cuda_problem;         // why CUDA finds no GPU; empty: it finds some, or is not built in
  std::vector<gpu_facts> gpus;      // as CUDA sees them; empty without CUDA in the build
  std::vector<std::string> boards;  // names of all GPUs of the machine, as the driver says, CUDA or not
};

device_facts read_device_facts();

/// Tries what ranks in separate processes need: an abstract Unix socket, a descriptor sent through it, and
/// shared memory behind that descriptor. Empty if all works; else what does not.
std::string process_sharing_problem();

/// Linux promises more memory than it has and kills the process later: this asks first.
/// @throws out_of_memory  fewer than `bytes` are free, by /proc/meminfo or by this process's control groups
void require_host_memory(std::size_t bytes, const memory_use& use);

}  // namespace baton
