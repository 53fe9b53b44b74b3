#pragma once
// The shared memory of a block of each kernel.
#include "exec/exec.hpp"
#include "exec/shared_plan.hpp"
#include "kernels/ep/shape.hpp"

namespace baton::ep {

/// Ids that dispatch_async places at a time.
inline constexpr int tile_ids = 256;

/// One lane counts in a cell that other lanes of the block count in too.
template <exec_context X>
BATON_FN void add_shared(X& x, std::int32_t* cell, int amount) {
  x.template fetch_add<order::relaxed, scope::block>(reinterpret_cast<std::uint32_t*>(cell),
                                                     static_cast<std::uint32_t>(amount));
}

/// Of round_start.hpp.
struct round_start_plan {
  shared_array<std::uint32_t> epoch;   // [1]: of this round
  shared_array<std::int32_t> aborted;  // [1]: a wait of this rank gave up before this block began
};
constexpr round_start_plan take_round_start(shared_plan& from) {
  const auto epoch = from.take<std::uint32_t>(1);
  return {epoch, from.take<std::int32_t>(1)};
}

struct dispatch_async_plan : shared_plan {
  shared_array<std::byte*> message;  // [tile_ids]: where each id's message starts; null: not sent
  shared_array<std::int32_t> ids;    // [tile_ids]
  round_start_plan start;
  shared_array<std::int32_t> complete;  // [most_ranks]: this block publishes to that rank
  shared_array<std::int32_t> total;     // [E]: ids of each expert on this rank
  shared_array<std::int32_t> base;      // [E]: those before the current tile
  shared_array<std::int32_t> own;       // [E]: units this block finishes

  constexpr dispatch_async_plan(const shape& s, int most_ranks)
      : message{take<std::byte*>(tile_ids)},
        ids{take<std::int32_t>(tile_ids)},
        start{take_round_start(*this)},
        complete{take<std::int32_t>(most_ranks)},
        total{take<std::int32_t>(s.num_experts)},
        base{take<std::int32_t>(s.num_experts)},
        own{take<std::int32_t>(s.num_experts)} {}

  /// Words that begin as 0: those from `complete` on.
  BATON_FN int zeroes() const { return static_cast<int>((bytes - complete.offset) / sizeof(std::int32_t)); }
};

/// Of a kernel that waits for other ranks.
struct waiting_plan : shared_plan {
  shared_array<std::uint32_t> failed;  // [1]: a wait of this block for an arrival word gave up
  shared_array<std::int32_t> shut;     // [1]: its wait for the gate did
  shared_array<std::int32_t> aborted;  // [1]: a wait of this rank gave up before this block began

  constexpr waiting_plan()
      : failed{take<std::uint32_t>(1)}, shut{take<std::int32_t>(1)}, aborted{take<std::int32_t>(1)} {}
};

/// Of a row_table.
struct row_table_plan {
  shared_array<std::int32_t> prefix;     // [pairs + 1]: rows of the pairs before this one
  shared_array<std::int32_t> first_row;  // [pairs]: its first row in the output, padding included
};
constexpr row_table_plan take_row_table(shared_plan& from, int pairs) {
  const auto prefix = from.take<std::int32_t>(pairs + 1);
  return {prefix, from.take<std::int32_t>(pairs)};
}

struct dispatch_wait_plan : waiting_plan {
  row_table_plan rows;

  constexpr explicit dispatch_wait_plan(const shape& s) : rows{take_row_table(*this, s.num_pairs())} {}
};

struct combine_async_plan : shared_plan {
  shared_array<std::int32_t> sent;      // [most_ranks]: units to each rank, by this block
  shared_array<std::int32_t> units;     // [most_ranks]: of all blocks
  shared_array<std::int32_t> complete;  // [most_ranks]: this block publishes to that rank
  round_start_plan start;
  row_table_plan rows;

  constexpr combine_async_plan(const shape& s, int most_ranks)
      : sent{take<std::int32_t>(most_ranks)},
        units{take<std::int32_t>(most_ranks)},
        complete{take<std::int32_t>(most_ranks)},
        start{take_round_start(*this)},
        rows{take_row_table(*this, s.num_pairs())} {}

  /// Words that begin as 0: those before `start`.
  BATON_FN int zeroes() const {
    return static_cast<int>((start.epoch.offset - sent.offset) / sizeof(std::int32_t));
  }
};

struct combine_wait_plan : waiting_plan {
  constexpr explicit combine_wait_plan(const shape&) {}
};

}  // namespace baton::ep
