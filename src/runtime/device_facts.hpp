#pragma once
// What this machine has. Reading the facts starts no work on any device and changes no setting.
#include <cstdint>
#include <string>
#include <vector>

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
  int nvlinks = -1;             // active links; -1: not known
  bool exports_memory = false;  // to other processes, by file descriptor
  bool has_kernels = false;     // baton's kernels run on it
  std::vector<bool> reaches;    // [ordinal]: peer access; itself true
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

/// BATON_DEVICE if it says cpu or cuda; else cuda if the build has CUDA and a GPU here can run its kernels.
/// @throws invalid_argument  BATON_DEVICE is something else than auto, cpu, cuda
device_kind auto_device();

}  // namespace baton
