#pragma once
// What the control groups of this process allow and leave it, versions 1 and 2, nested.
#include <cstddef>
#include <filesystem>
#include <limits>

namespace baton {

struct memory_allowance {
  static constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();
  std::size_t total = unlimited;
  std::size_t free = unlimited;
};

/// The tightest of all groups that this process is in. `root` has the folders proc and sys.
memory_allowance memory_allowance_of_cgroups(const std::filesystem::path& root = "/");

}  // namespace baton
