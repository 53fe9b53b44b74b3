#pragma once
// A rank of a small exchange whose kernels a test launches one by one.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "exec/wait.hpp"

namespace baton::test {

/// All that kernels change of a rank, and what it reported.
struct rank_memory {
  std::vector<std::byte> window, local;
  std::vector<float> out;
  stuck_record record{};
  std::uint32_t abort = 0;
};

}  // namespace baton::test
