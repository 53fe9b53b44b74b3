#include "sim/check/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "baton/error.hpp"
#include "sim/check/vector_clock.hpp"

namespace baton::check {

void* arena::take(std::size_t bytes) {
  constexpr std::size_t chunk_bytes = std::size_t{1} << 16;
  bytes = (bytes + 2 * alignment - 1) / alignment * alignment;  // an access past the end meets nothing
  while (current_ < chunks_.size() && chunks_[current_].used + bytes > chunks_[current_].size) ++current_;
  if (current_ == chunks_.size()) {
    const std::size_t size = std::max(chunk_bytes, bytes);
    chunks_.push_back({std::make_unique<std::byte[]>(size + alignment), size, 0});
  }
  chunk& c = chunks_[current_];
  const auto base = reinterpret_cast<std::uintptr_t>(c.memory.get());
  const std::size_t skew = (alignment - base % alignment) % alignment;
  std::byte* at = c.memory.get() + skew + c.used;
  c.used += bytes;
  return at;
}

void arena::reset() {
  for (chunk& c : chunks_) {
    std::memset(c.memory.get(), 0, std::min(c.used + alignment, c.size + alignment));
    c.used = 0;
  }
  current_ = 0;
}

void program::spawn(int rank, int block, int warp, body run) {
  if (warps_.size() == max_warps) {
    throw invalid_argument(
        fmt::format("check::program::spawn: expected at most {} warps in all ranks together; "
                    "found one more (rank {} block {} warp {}): check a smaller program",
                    max_warps, rank, block, warp));
  }
  warps_.push_back({{rank, block, warp}, std::move(run)});
}

}  // namespace baton::check
