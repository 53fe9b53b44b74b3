#include "runtime/cgroup_memory.hpp"

#include <fstream>
#include <optional>
#include <string>

#include "base/math.hpp"

namespace baton {
namespace {

using std::filesystem::path;

/// Where a version keeps its groups, and what it calls things.
struct hierarchy {
  const char* mount;
  const char* limit;
  const char* used;
  const char* reclaimable;  // page cache: counted as used but given back on demand
};
constexpr hierarchy version_1{"sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                              "total_inactive_file"};
constexpr hierarchy version_2{"sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};

/// Nothing if there is no such file, or it says "max".
std::optional<std::size_t> number_in(const path& file) {
  std::ifstream in{file};
  std::size_t value = 0;
  if (in >> value) return value;
  return std::nullopt;
}

std::size_t entry_of(const path& file, const std::string& wanted) {
  std::ifstream in{file};
  std::string key;
  std::size_t value = 0;
  while (in >> key >> value)
    if (key == wanted) return value;
  return 0;
}

void tighten(memory_allowance& a, const path& group, const hierarchy& h) {
  const auto limit = number_in(group / h.limit), used = number_in(group / h.used);
  if (!limit) return;
  a.total = smaller(a.total, *limit);
  const std::size_t reclaimable = entry_of(group / "memory.stat", h.reclaimable);
  const std::size_t in_use = used ? *used - smaller(*used, reclaimable) : 0;
  a.free = smaller(a.free, *limit - smaller(*limit, in_use));
}

/// From the group up to the mount. In a container the upper part of the path may not exist where it can be seen;
/// the mount is then the container's own group.
void tighten_by_all(memory_allowance& a, const path& root, const std::string& group, const hierarchy& h) {
  const path mount = root / h.mount;
  path relative = path{group}.relative_path();
  if (group.find("..") != std::string::npos) relative.clear();
  for (;; relative = relative.parent_path()) {
    tighten(a, relative.empty() ? mount : mount / relative, h);
    if (relative.empty()) return;
  }
}

bool lists_memory(const std::string& controllers) {
  return ("," + controllers + ",").find(",memory,") != std::string::npos;
}

}  // namespace

memory_allowance memory_allowance_of_cgroups(const path& root) {
  memory_allowance a;
  std::ifstream in{root / "proc/self/cgroup"};
  for (std::string line; std::getline(in, line);) {  // "4:memory,cpu:/a/b", "0::/a/b"
    const auto first = line.find(':'),
               second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1),
                      group = line.substr(second + 1);
    if (controllers.empty())
      tighten_by_all(a, root, group, version_2);
    else if (lists_memory(controllers))
      tighten_by_all(a, root, group, version_1);
  }
  return a;
}

}  // namespace baton
