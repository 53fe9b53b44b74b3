#include "sim/alignment.hpp"

#include <fmt/format.h>

#include "baton/error.hpp"

namespace baton::sim {

void refuse_misaligned(const void* at, std::size_t alignment) {
  throw error{fmt::format("a kernel accesses {}: expected a multiple of {} bytes", at, alignment)};
}

}  // namespace baton::sim
