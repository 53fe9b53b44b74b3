#include "runtime/host_memory.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>

#include "base/math.hpp"
#include "baton/error.hpp"

namespace baton {
namespace {

constexpr std::size_t alignment = 256;

/// A line "MemAvailable:   12345 kB".
std::size_t meminfo(const std::string& key) {
  std::ifstream in{"/proc/meminfo"};
  std::string word;
  while (in >> word) {
    if (word == key + ":") {
      std::size_t kib = 0;
      in >> kib;
      return kib * 1024;
    }
    in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::numeric_limits<std::size_t>::max();
}

std::optional<std::size_t> number_in(const char* path) {
  std::ifstream in{path};
  std::size_t value = 0;
  if (in >> value) return value;
  return std::nullopt;
}

/// Page cache is counted as used but given back on demand.
std::size_t reclaimable() {
  std::ifstream in{"/sys/fs/cgroup/memory.stat"};
  std::string key;
  std::size_t value = 0;
  while (in >> key >> value)
    if (key == "inactive_file") return value;
  return 0;
}

}  // namespace

std::size_t host_bytes_total() {
  const std::size_t physical = meminfo("MemTotal");
  return smaller(physical, number_in("/sys/fs/cgroup/memory.max").value_or(physical));
}

std::size_t host_bytes_free() {
  const std::size_t machine = meminfo("MemAvailable");
  const auto most = number_in("/sys/fs/cgroup/memory.max");
  const auto used = number_in("/sys/fs/cgroup/memory.current");
  if (!most || !used) return machine;
  const std::size_t in_use = *used - smaller(*used, reclaimable());
  return smaller(machine, *most - smaller(*most, in_use));
}

void throw_out_of_memory(const std::string& where, const memory_use& use, std::size_t needed,
                         std::size_t free) {
  throw out_of_memory{
      fmt::format("{} for {}: {} bytes needed, {} free; {}", where, use.purpose, needed, free, use.knob),
      needed, free};
}

void require_host_memory(std::size_t bytes, const memory_use& use) {
  const std::size_t free = host_bytes_free();
  if (bytes > free) throw_out_of_memory("host memory", use, bytes, free);
}

std::shared_ptr<std::byte> allocate_host(std::size_t bytes, const memory_use& use) {
  require_host_memory(bytes, use);
  const std::size_t size = larger(align_up(bytes, alignment), alignment);
  void* at = std::aligned_alloc(alignment, size);
  if (at == nullptr) throw_out_of_memory("host memory", use, bytes, host_bytes_free());
  std::memset(at, 0, size);
  return {static_cast<std::byte*>(at), [](std::byte* p) { std::free(p); }};
}

}  // namespace baton
