#include "baton/device_facts.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string_view>
#include <thread>

#include "baton/error.hpp"
#include "runtime/cuda_facts.hpp"
#include "runtime/host_memory.hpp"
#include "runtime/nvml.hpp"

namespace baton {
namespace {

std::string cpu_name() {
  std::ifstream in{"/proc/cpuinfo"};
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name"))
      if (const auto colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2);
  utsname system{};
  return ::uname(&system) == 0 ? system.machine : "unknown";
}

int usable_cores() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

host_facts read_host() {
  host_facts h;
  h.cpu = cpu_name();
  h.cores = usable_cores();
  h.memory_bytes = host_bytes_total();
  h.memory_free_bytes = host_bytes_free();
  struct statvfs shm {};
  if (::statvfs("/dev/shm", &shm) == 0) h.shm_bytes = std::uint64_t{shm.f_blocks} * shm.f_frsize;
  utsname system{};
  if (::uname(&system) == 0) h.kernel = fmt::format("{} {}", system.sysname, system.release);
  return h;
}

}  // namespace

device_facts read_device_facts() {
  device_facts facts;
  facts.host = read_host();
  const nvml management;
  facts.driver = management.driver_version();
  facts.boards = management.board_names();
  read_cuda_facts(facts);
  for (gpu_facts& gpu : facts.gpus) gpu.nvlinks = management.active_nvlinks(gpu.bus_id);
  return facts;
}

device_kind auto_device() {
  const char* const wish = std::getenv("BATON_DEVICE");
  const std::string_view text = wish == nullptr ? "" : wish;
  if (text == "cpu") return device_kind::cpu;
  if (text == "cuda") return device_kind::cuda;
  if (!text.empty() && text != "auto")
    throw invalid_argument{
        fmt::format("environment variable BATON_DEVICE='{}', expected auto, cpu or cuda", text)};
  device_facts facts;
  read_cuda_facts(facts);
  const bool usable =
      std::any_of(facts.gpus.begin(), facts.gpus.end(), [](const gpu_facts& g) { return g.has_kernels; });
  return usable ? device_kind::cuda : device_kind::cpu;
}

}  // namespace baton
