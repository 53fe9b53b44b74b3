#include "runtime/host_memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>

#include "base/math.hpp"
#include "baton/error.hpp"
#include "bootstrap/shared_memory.hpp"
#include "runtime/cgroup_memory.hpp"
#include "runtime/memory_credit.hpp"

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

/// Of what `ulimit -v` lets this process have.
std::size_t addresses_left() {
  rlimit most{};
  std::size_t pages = 0;
  if (::getrlimit(RLIMIT_AS, &most) != 0 || most.rlim_cur == RLIM_INFINITY ||
      !(std::ifstream{"/proc/self/statm"} >> pages))
    return std::numeric_limits<std::size_t>::max();
  const std::size_t used = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return most.rlim_cur - smaller<std::size_t>(used, most.rlim_cur);
}

std::size_t free_for_this_process() {
  return smaller(host_bytes_free(), addresses_left());
}

void require(std::size_t bytes, std::size_t free, const memory_use& use) {
  if (bytes > free) throw_out_of_memory("host memory", use, bytes, free);
}

}  // namespace

std::size_t host_bytes_total() {
  return smaller(meminfo("MemTotal"), memory_allowance_of_cgroups().total);
}

std::size_t host_bytes_free() {
  return smaller(meminfo("MemAvailable"), memory_allowance_of_cgroups().free);
}

void throw_out_of_memory(const std::string& where, const memory_use& use, std::size_t needed,
                         std::size_t free) {
  throw out_of_memory{
      fmt::format("{} for {}: {} bytes needed, {} free; {}", where, use.purpose, needed, free, use.knob),
      needed, free};
}

void require_host_memory(std::size_t bytes, const memory_use& use) {
  static memory_credit credit;
  const auto now = std::chrono::steady_clock::now();
  if (credit.covers(bytes, now)) return;
  const std::size_t free = free_for_this_process();
  require(bytes, free, use);
  credit.found(free - bytes, now);
}

void require_host_memory_of_all(const bootstrap::group& g, std::size_t bytes, const memory_use& use) {
  std::size_t needed = 0;
  for (const std::uint64_t each : bootstrap::gather(g, static_cast<std::uint64_t>(bytes)))
    needed += smaller(static_cast<std::size_t>(each), std::numeric_limits<std::size_t>::max() - needed);
  memory_use by_all = use;
  if (g.size > 1) by_all.purpose += fmt::format(" of all {} ranks", g.size);
  // Nobody allocates before the last has looked: each counts the same bytes as free.
  bootstrap::together(g, [&] { require(needed, host_bytes_free(), by_all); });
}

bootstrap::file_descriptor allocate_shared(std::size_t bytes, const memory_use& use) {
  try {
    return bootstrap::create_shared_memory(bytes);
  } catch (const out_of_memory& e) {
    throw_out_of_memory(e.what(), use, bytes, free_for_this_process());
  }
}

void retake_shared(const bootstrap::file_descriptor& fd, std::size_t bytes, const memory_use& use) {
  try {
    bootstrap::retake_shared_memory(fd, bytes);
  } catch (const out_of_memory& e) {
    throw_out_of_memory(e.what(), use, bytes, free_for_this_process());
  }
}

void give_back_pages(std::byte* at, std::size_t bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE)),
             begin = align_up(reinterpret_cast<std::uintptr_t>(at), page),
             end = (reinterpret_cast<std::uintptr_t>(at) + bytes) / page * page;
  if (begin >= end) return;
  if (::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED) != 0)
    throw unsupported{fmt::format("cannot give {} bytes of host memory back: {}; are they locked (mlock)?",
                                  end - begin, std::strerror(errno))};
}

std::shared_ptr<std::byte> allocate_host(std::size_t bytes, const memory_use& use) {
  require_host_memory(bytes, use);
  const std::size_t size = larger(align_up(bytes, alignment), alignment);
  void* at = std::aligned_alloc(alignment, size);
  if (at == nullptr) throw_out_of_memory("host memory", use, bytes, free_for_this_process());
  std::memset(at, 0, size);
  return {static_cast<std::byte*>(at), [](std::byte* p) { std::free(p); }};
}

}  // namespace baton
