#include "baton/network_facts.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string_view>
#include <system_error>

#include "runtime/nvshmem_library.hpp"

namespace baton {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> all;
  std::error_code failed;
  for (fs::directory_iterator at{folder, failed}, end; !failed && at != end; at.increment(failed))
    all.push_back(at->path());
  std::sort(all.begin(), all.end());
  return all;
}

std::string first_line(const fs::path& file) {
  std::ifstream in{file};
  std::string line;
  std::getline(in, line);
  return line;
}

/// A port's state is "4: ACTIVE".
void read_ports(const fs::path& root, network_facts& facts) {
  for (const fs::path& device : entries_of(root / "sys/class/infiniband"))
    for (const fs::path& port : entries_of(device / "ports")) {
      const std::string state = first_line(port / "state"), layer = first_line(port / "link_layer");
      const auto name = state.find(": ");
      const std::string word = name == state.npos ? state : state.substr(name + 2);
      facts.ports.push_back(fmt::format("{} port {}: {}, {}", device.filename().string(),
                                        port.filename().string(), layer, word));
      facts.active_ports += word == "ACTIVE" ? 1 : 0;
    }
  for (const fs::path& device : entries_of(root / "dev/infiniband"))
    if (device.filename().string().starts_with("uverbs") && ::access(device.c_str(), R_OK | W_OK) == 0)
      facts.opens_verbs = true;
}

std::string dotted(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

void read_nvshmem(network_facts& facts) {
  const nvshmem_places at = places_of_nvshmem();
  const opened_library host = open_first(at.host_library, RTLD_NOW | RTLD_GLOBAL);
  facts.nvshmem_problem = host.problem;
  if (host.handle == nullptr) return;
  facts.nvshmem = host.path;
  using version_call = void (*)(int*, int*, int*);
  int major = 0, minor = 0, patch = 0;
  if (const auto ask =
          reinterpret_cast<version_call>(::dlsym(host.handle, "nvshmemx_vendor_get_version_info")))
    ask(&major, &minor, &patch);
  facts.nvshmem_version = fmt::format("{}.{}.{}", major, minor, patch);
  const opened_library module = open_first(at.module, RTLD_NOW | RTLD_LOCAL);
  facts.module_problem = module.problem;
  if (module.handle == nullptr) return;
  const nvshmem_calls* const calls = calls_of(module.handle);
  if (calls == nullptr) {
    facts.module_problem = fmt::format("{} is of another build of baton", module.path);
    return;
  }
  facts.module = module.path;
  facts.module_version = dotted(calls->built_with);
}

/// As NVSHMEM reads sizes: "1073741824", "3.1M"; 0: it is none.
std::uint64_t size_of(std::string_view text) {
  constexpr std::string_view units = "kmgt";
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, problem] = std::from_chars(text.data(), end, number);
  if (problem != std::errc{} || !(number > 0)) return 0;
  const auto unit = rest == end ? units.npos : units.find(static_cast<char>(*rest | 0x20));
  if (rest != end && unit == units.npos) return 0;
  const double bytes = unit == units.npos ? number : std::ldexp(number, 10 * (static_cast<int>(unit) + 1));
  return bytes < 0x1p62 ? static_cast<std::uint64_t>(std::ceil(bytes)) : 0;
}

/// By its rules and defaults (3.4.5).
void read_heap(network_facts& facts) {
  facts.heap_grows = nvshmem_heap_grows();
  facts.heap_variable = facts.heap_grows ? "NVSHMEM_MAX_MEMORY_PER_GPU" : "NVSHMEM_SYMMETRIC_SIZE";
  const char* const told = ::getenv(facts.heap_variable.c_str());
  constexpr std::uint64_t gib = std::uint64_t{1} << 30;
  facts.most_heap_bytes = told != nullptr ? size_of(told) : facts.heap_grows ? 128 * gib : gib;
}

}  // namespace

network_facts read_network_facts(const std::string& root) {
  network_facts facts;
  for (const char* name : {"BATON_NVSHMEM", "BATON_NVSHMEM_MODULE"})
    if (const char* const value = ::getenv(name); value != nullptr && *value != '\0') facts.is_told = true;
  read_nvshmem(facts);
  read_heap(facts);
  facts.gpus_put = nvshmem_is_told("NVSHMEM_IB_ENABLE_IBGDA");
  read_ports(root, facts);
  std::error_code failed;
  facts.has_peermem = fs::exists(fs::path{root} / "sys/module/nvidia_peermem", failed);
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) == 0)
    facts.lockable_bytes = limit.rlim_cur == RLIM_INFINITY ? std::numeric_limits<std::uint64_t>::max()
                                                           : std::uint64_t{limit.rlim_cur};
  return facts;
}

}  // namespace baton
