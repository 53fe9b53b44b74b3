#pragma once
// The shared memory of a block of combine whose warps work in teams. Each team has a ring of stages, each with room for a part
// of a row, and slots for sums that nobody was told of.
#include "exec/mbarrier.hpp"
#include "exec/shared_plan.hpp"
#include "kernels/ep/per_rank_chunks/params.hpp"

namespace baton::ep::per_rank_chunks {

/// How sums travel that teams make. Those in bf16 are quicker by warps that do all of it (combine.hpp; docs/decisions/0020).
inline constexpr token_format team_sums = token_format::blockwise_fp8;

inline constexpr int sum_slots = 4;         // of a team
inline constexpr int most_team_stages = 8;  // beyond them nothing is gained

/// What adders do with what has come to a stage.
struct addend_note {
  enum : std::uint32_t {
    is_last = 1,      // of its part: the sum is stored
    is_sent = 2,      // to another rank; behind the last, adders arrive for the slot
    has_nothing = 4,  // nothing came
    keeps = 8,        // before: what was added up so far is kept apart
    joins = 16,       // behind: what was kept apart is added
    tells = 32,       // nothing is stored: adders arrive for the slot
    ends = 64,        // as tells; there are no more parts
    is_fp8 = 128,     // e4m3 with scales came, not bf16
  };
  float weight;
  std::uint32_t what;  // of these; source << 8, part << 16
  std::int32_t token;
  std::int32_t unused;
};
static_assert(sizeof(addend_note) == sizeof(vec16));
BATON_FN constexpr int source_of(std::uint32_t what) {
  return static_cast<int>(what >> 8 & 0xff);
}
BATON_FN constexpr int part_of(std::uint32_t what) {
  return static_cast<int>(what >> 16);
}

/// What becomes of a slot when all adders have arrived for it.
struct slot_note {
  enum : std::uint32_t { tells_now = 1, ends = 2 };
  std::uint64_t* word;  // of the sum; null: of none
  std::uint64_t what;
};
static_assert(sizeof(slot_note) == sizeof(vec16));

/// What a team has beside rows, at places that do not depend on how many teams there are.
struct team_cells {
  addend_note notes[most_team_stages];
  slot_note slots[sum_slots];
  mbarrier landed[most_team_stages], left[most_team_stages];  // a row is there; all adders have it
  mbarrier summed[sum_slots], free_slot[sum_slots];  // all adders have stored the sum; its slot is free
  std::uint32_t here;  // this rank's parts of which all other ranks' sums are here
};

struct team_plan : shared_plan {
  std::uint32_t stage_bytes;
  shared_array<team_cells> cells_of;  // [teams]
  shared_array<std::byte> rows;       // [teams, stages, stage_bytes]
  shared_array<float> kept;           // [teams, sum_columns], where ranks' order asks for it

  constexpr team_plan(const shape& s, const cells& window, const team_roles& roles)
      : stage_bytes{align_up(static_cast<std::uint32_t>(2 * window.sum_columns), 128u)},
        cells_of{take<team_cells>(most_teams, 16)},
        rows{take<std::byte>(roles.teams * roles.stages * static_cast<int>(stage_bytes), 128)},
        kept{take<float>(s.num_ranks > 2 ? roles.teams * window.sum_columns : 0, 16)} {}
};

/// All warps of the block: mbarriers and counts. The block synchronises afterwards.
template <class X>
BATON_FN void prepare(X& x, const team_plan& shared, const team_roles& roles, int adders) {
  x.block_each(roles.teams * most_team_stages, [&](int i) {
    team_cells& team = shared.cells_of(x)[i / most_team_stages];
    x.mbarrier_init(team.landed + i % most_team_stages, 1);
    x.mbarrier_init(team.left + i % most_team_stages, adders);
  });
  x.block_each(roles.teams * sum_slots, [&](int i) {
    team_cells& team = shared.cells_of(x)[i / sum_slots];
    x.mbarrier_init(team.summed + i % sum_slots, adders);
    x.mbarrier_init(team.free_slot + i % sum_slots, 1);
  });
  x.block_each(roles.teams, [&](int i) { x.write(&shared.cells_of(x)[i].here, 0u); });
  x.block_each(x.num_warps() * warp_lanes, [&](int) { x.fence_mbarrier_init(); });
}

/// Which stage or slot of `num` is next, and the parity of its phase.
struct ring_turn {
  int index = 0;
  baton::parity parity = baton::parity::even;
  BATON_FN void step(int num) {
    if (++index < num) return;
    index = 0;
    parity = !parity;
  }
};

}  // namespace baton::ep::per_rank_chunks
