#pragma once
// Commits: arrivals that happen when the matrix products issued before them are done.
//
// An engine runs products in the order of their issue, asynchronously. engine.commit(x, b, to) asks it to
// arrive once at b, here or at the same barrier of both blocks of the pair, after everything issued so far.
//
// Named for the hardware they model:
//
//   mma_sync_engine  a warp's products, done when their issue returns: commit is an arrive
//   wgmma_engine     a group's, which their issuer has awaited, or rows that its warps have read: the same, a lane for each block
//   tcgen05          checks/pair_attention_tokens.hpp: a queue that a warp of its own runs and commits behind the issuer
//
// M1: what an engine did for the products issued before a commit happens before the return of every wait for
//     the phase that the commit's arrival completes.
#include <concepts>
#include <cstdint>

#include "base/macros.hpp"
#include "exec/mbarrier.hpp"
#include "exec/tensor_copy.hpp"

namespace baton {

/// Block 0 of a pair of blocks: where barriers live that both blocks arrive at.
inline constexpr int leader_block = 0;

enum class commit_to : std::uint8_t { own_block, both_blocks };

template <class Engine, class X>
concept commit_engine = requires(Engine& engine, X& x, mbarrier* b) {
  engine.commit(x, b, commit_to::own_block);
};

/// One lane: arrivals at `b` or at the same barrier of another block.
template <async_exec_context X>
BATON_FN void arrive_in_block(X& x, mbarrier* b, int block, int arrivals) {
  if (block == x.cluster_block()) {
    x.mbarrier_arrive(b, arrivals);
  } else {
    x.mbarrier_arrive_at(b, block, arrivals);
  }
}

/// One lane: the arrival of a commit whose products are done (M1).
template <async_exec_context X>
BATON_FN void arrive_for_commit(X& x, mbarrier* b, commit_to to) {
  if (to == commit_to::own_block) return x.mbarrier_arrive(b, 1);
  for (int block = 0; block < x.cluster_blocks(); ++block) arrive_in_block(x, b, block, 1);
}

/// Products are done when their issue returns.
struct mma_sync_engine {
  template <async_exec_context X>
  BATON_FN void commit(X& x, mbarrier* b, commit_to to) {
    x.sync_warp();
    x.elect([&] { arrive_for_commit(x, b, to); });
  }
};

/// Products have been awaited (exec/group_mma.hpp), by all warps that commit. `Reach`: how far the arrival orders their plain
/// accesses; beyond the block that costs a quarter of a product's speed.
template <scope Reach>
struct wgmma_engine {
  template <tensor_exec_context X>
  BATON_FN void commit(X& x, mbarrier* b, commit_to to) {
    x.sync_warp();
    if (to == commit_to::own_block) return x.elect([&] { x.template mbarrier_arrive<Reach>(b, 1); });
    x.each_lane([&](int block) {
      if (block < x.cluster_blocks()) x.template mbarrier_arrive_at<Reach>(b, block, 1);
    });
  }
};

}  // namespace baton
