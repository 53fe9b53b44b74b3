#pragma once
// Explores protocols of a pair of blocks, or of one block, that run on tokens.
#include <string>

#include "checks/pair_attention_runs.hpp"
#include "checks/role_pipeline_runs.hpp"
#include "sim/check.hpp"

namespace baton::checks {

/// Some address, to take offsets from.
inline std::byte* base() {
  alignas(256) static std::byte first[1 << 16];
  return first;
}

template <class Shape>
void name_shared_memory(check::program& p, int tiles) {
  using bars = typename Shape::mbars;
  using cells = pair_attention_cells<Shape>;
  const auto barriers = [&](int first, int count, const char* name) {
    p.name_shared(static_cast<std::size_t>(first) * sizeof(mbarrier), sizeof(mbarrier),
                  static_cast<std::size_t>(count), name);
  };
  barriers(bars::po_lo_offset, 1, "po_lo");
  if (Shape::output_halves == 2) barriers(bars::po_hi_offset, 1, "po_hi");
  barriers(bars::s_even_consumer_offset, 1, "s_even_consumer");
  barriers(bars::s_odd_consumer_offset, 1, "s_odd_consumer");
  barriers(bars::c_producer_offset, 1, "c_producer");
  barriers(bars::c_consumer_offset, 1, "c_consumer");
  barriers(bars::s_even_producer_offset, 1, "s_even_producer");
  barriers(bars::s_odd_producer_offset, 1, "s_odd_producer");
  barriers(bars::o_mma_lo_offset, 1, "o_mma_lo");
  if (Shape::output_halves == 2) barriers(bars::o_mma_hi_offset, 1, "o_mma_hi");
  barriers(bars::kv_offset, Shape::kv_stages, "kv_producer");
  barriers(bars::kv_offset + Shape::kv_stages, Shape::kv_stages, "kv_consumer");
  const auto offset = [](const void* at) {
    return static_cast<std::size_t>(static_cast<const std::byte*>(at) - base());
  };
  p.name_shared(offset(cells::slots(base())), sizeof(vec16), Shape::kv_stages, "slot");
  p.name_shared(offset(cells::q(base())), sizeof(vec16), Shape::qk_stages, "Q");
  p.name_shared(offset(cells::issued(base())), sizeof(mbarrier),
                static_cast<std::size_t>(cells::num_commands(tiles)), "issued");
}

template <class Shape>
check::result explore_pair_attention(int tiles, const attention_mutant& m, const check::bounds& limits) {
  using cells = pair_attention_cells<Shape>;
  return check::explore(limits, [&](check::program& p) {
    const auto allocate = [&]<class T>(std::size_t count, const char* name) {
      return p.allocate<T>(count, name);
    };
    const cells c = cells::make(tiles, allocate);
    p.shared_memory(cells::shared_bytes(tiles));
    name_shared_memory<Shape>(p, tiles);
    p.clusters_of(cells::blocks);
    for (int block = 0; block < cells::blocks; ++block) {
      for (int warp = 0; warp < Shape::loader_warp + (block == leader_block ? 2 : 1); ++warp) {
        p.spawn(0, block, warp, [=, &p](check::context& x) {
          const auto judge = [&p](bool holds, const char* text) { p.require(holds, text); };
          run_pair_attention_on_tokens<Shape>(x, c, tiles, m, judge);
        });
      }
    }
    p.at_end([c, &p] { p.require(cells::stored(c), "the output is in memory"); });
  });
}

template <class Shape>
check::result explore_hand_over(int items, const pipeline_mutant& m, const check::bounds& limits) {
  return check::explore(limits, [&](check::program& p) {
    auto* cells = p.allocate<std::uint32_t>(Shape::stages * Shape::subs, "stage");
    p.shared_memory(Shape::shared_bytes);
    p.name_shared(0, sizeof(mbarrier), Shape::first_consumer_barrier, "producer barrier");
    p.name_shared(Shape::first_consumer_barrier * sizeof(mbarrier), sizeof(mbarrier), Shape::stages,
                  "consumer barrier");
    p.clusters_of(Shape::blocks);
    for (int block = 0; block < Shape::blocks; ++block) {
      for (int warp = 0; warp < Shape::warps; ++warp) {
        p.spawn(0, block, warp, [=, &p](check::context& x) {
          const auto judge = [&p](bool holds, const char* text) { p.require(holds, text); };
          run_hand_over<Shape>(x, cells, items, m, judge);
        });
      }
    }
  });
}

}  // namespace baton::checks
