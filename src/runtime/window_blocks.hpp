#pragma once
// How the blocks of a symmetric window reach all ranks of one process, and who makes them.
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "bootstrap/group.hpp"
#include "runtime/host_memory.hpp"
#include "runtime/window.hpp"

namespace baton {

/// Every rank's block, shared: it lives until the last rank of the process lets go, so a rank that is torn
/// down early leaves no pointer dangling under a peer's kernel. Collective.
template <class Block>
std::vector<std::shared_ptr<Block>> share_in_process(const bootstrap::group& g, std::shared_ptr<Block> mine) {
  const auto handles = bootstrap::gather(g, &std::as_const(mine));
  std::vector<std::shared_ptr<Block>> blocks;
  for (const std::shared_ptr<Block>* handle : handles) blocks.push_back(*handle);
  bootstrap::meet(g);  // `mine` must outlive everybody's copy of it
  return blocks;
}

/// Of the ranks of `g`, which are those of the world, or this one alone.
std::unique_ptr<symmetric_window> make_window_on_host(const world& world, const bootstrap::group& g,
                                                      std::size_t bytes, const memory_use& use);

}  // namespace baton
