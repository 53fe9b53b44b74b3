#pragma once
// The shared memory of a block. In dispatch each warp has room of its own: pieces on their way in or out, and before that what
// it indexes with.
#include "exec/mbarrier.hpp"
#include "exec/shared_plan.hpp"
#include "kernels/ep/per_rank_chunks/params.hpp"

namespace baton::ep::per_rank_chunks {

/// What an indexing warp keeps of a tile, and of its share of all tiles.
struct index_room : shared_plan {
  shared_array<std::uint32_t> bits;     // [expert_slots]
  shared_array<std::uint32_t> choices;  // [tile_tokens]: bit k: the token's k-th choice is here
  shared_array<std::int32_t> sums;      // [shares of the warp, expert_slots]: rows in each share of all tiles

  constexpr explicit index_room(const cells& window)
      : bits{take<std::uint32_t>(window.expert_slots, 16)},
        choices{take<std::uint32_t>(warp_lanes)},
        sums{take<std::int32_t>(larger(window.expert_slots, 4 * warp_lanes), 16)} {}
};

/// With two levels also:
struct group_index_room : index_room {
  shared_array<std::uint32_t> wanted;  // [tile_tokens]: bit r: rank r of this group wants the token
  constexpr explicit group_index_room(const cells& window)
      : index_room{window}, wanted{take<std::uint32_t>(warp_lanes)} {}
};

/// `room` is what each warp has beside mbarriers for its stages.
struct block_plan : shared_plan {
  std::uint32_t room;
  shared_array<std::uint32_t>
      next;  // chunks that this block's warps have taken: to send, to receive, to forward
  shared_array<mbarrier> landed;  // [warps, stages]
  shared_array<mbarrier> summed;  // all indexing warps have counted their share of the tiles
  shared_array<mbarrier> known;   // rows can be found
  shared_array<std::byte> rooms;  // [warps, room]

  constexpr block_plan(const block_roles& roles, std::uint32_t room_of_warp, int taken)
      : room{align_up(room_of_warp, 128u)},
        next{take<std::uint32_t>(taken, 8)},
        landed{take<mbarrier>(roles.warps() * roles.stages)},
        summed{take<mbarrier>(1)},
        known{take<mbarrier>(1)},
        rooms{take<std::byte>(roles.warps() * static_cast<int>(room), 128)} {}

  template <class X>
  BATON_FN std::byte* room_of(X& x, int warp) const {
    return rooms(x) + static_cast<std::uint32_t>(warp) * room;
  }
};

constexpr block_plan dispatch_plan(const cells& window, const block_roles& roles, bool two_levels = false) {
  const auto pieces = static_cast<std::uint32_t>(roles.stages * window.piece_room);
  const std::uint32_t index = two_levels ? group_index_room{window}.bytes : index_room{window}.bytes;
  return {roles, larger(pieces, index), two_levels ? 3 : 2};
}

/// Of a part, that a warp of combine adds up at a time.
inline constexpr int columns_of_set = 1024;

struct combine_plan : shared_plan {
  shared_array<std::uint32_t>
      next;                  // parts that this block's warps have taken: to send, to receive, to forward
  shared_array<float> kept;  // [warps, columns_of_set], of fused calls where ranks' order asks for it
  constexpr explicit combine_plan(const shape& s = {}, int warps = 0, bool two_levels = false)
      : next{take<std::uint32_t>(two_levels ? 3 : 2, 8)},
        kept{take<float>(s.num_ranks > 2 ? warps * columns_of_set : 0, 16)} {}
};

/// All warps of the block: its mbarriers and counters. The block synchronises afterwards.
template <class X>
BATON_FN void prepare(X& x, const block_plan& shared, const block_roles& roles) {
  x.block_each(roles.warps() * roles.stages, [&](int i) { x.mbarrier_init(shared.landed(x) + i, 1); });
  x.block_each(1, [&](int) {
    x.mbarrier_init(shared.summed(x), larger(1, roles.others));
    x.mbarrier_init(shared.known(x), larger(1, roles.others));
    x.write(shared.next(x), 0u);
    x.write(shared.next(x) + 1, 0u);
  });
  x.block_each(x.num_warps() * warp_lanes, [&](int) { x.fence_mbarrier_init(); });
}

/// The block's next chunk or part, of those that are counted at `next`.
/// D1: each is taken by one warp: the counter is 0 before the block's barrier, and only ever added to.
template <class X>
BATON_FN int take_next(X& x, std::uint32_t* next) {
  return static_cast<int>(
      x.from_one([&] { return x.template fetch_add<order::relaxed, scope::block>(next, 1u); }));
}

/// Where a block's warps find what is next: in its share, every so many of all, or what is next of all. Links and memory do not
/// serve blocks alike; of shares the slowest block's ends last (docs/decisions/0020).
/// D2: what is counted for all blocks is 0 before a kernel that takes: dispatch clears what combine's kernels count, and these
///     what dispatch counts. They follow each other (K1).
struct share {
  std::uint32_t* next;           // of this block
  std::uint32_t* next_of_all{};  // null: it has a share
};
template <class X>
BATON_FN int take_next(X& x, const share& from) {
  if (from.next_of_all == nullptr) return take_next(x, from.next) * x.num_blocks() + x.block();
  constexpr std::uint32_t most = 1u << 24;  // memory may be damaged; there are never so many
  return static_cast<int>(smaller(most, x.from_one([&] {
    return x.template fetch_add<order::relaxed, scope::device>(from.next_of_all, 1u);
  })));
}

}  // namespace baton::ep::per_rank_chunks
