#pragma once
// Which pages of this process's memory the machine holds.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace baton::test {

/// The part of the pages that lie wholly in `bytes` bytes at `at`, which are some, that takes memory: 0 to 1.
inline double resident_part(const void* at, std::size_t bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t begin = (reinterpret_cast<std::uintptr_t>(at) + page - 1) / page * page,
                       end = (reinterpret_cast<std::uintptr_t>(at) + bytes) / page * page;
  std::vector<unsigned char> pages((end - begin) / page);
  if (::mincore(reinterpret_cast<void*>(begin), end - begin, pages.data()) != 0) return -1;
  double resident = 0;
  for (const unsigned char p : pages) resident += p & 1;
  return resident / static_cast<double>(pages.size());
}

}  // namespace baton::test
