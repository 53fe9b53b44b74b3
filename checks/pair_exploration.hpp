#pragma once
// Explores protocols of a pair of blocks, or of one block, that run on tokens.
#include <string>

#include "checks/pair_attention_runs.hpp"
#include "checks/role_pipeline_runs.hpp"
#include "sim/check.hpp"

namespace baton::checks {

template <class Shape>
check::result explore_pair_attention(int tiles, const attention_mutant& m, const check::bounds& limits) {
  using cells = pair_attention_cells<Shape>;
  return check::explore(limits, [&](check::program& p) {
    const auto allocate = [&]<class T>(std::size_t count, const char* name) {
      return p.allocate<T>(count, name);
    };
    const cells c = cells::make(tiles, allocate);
    p.shared_memory(cells::shared_bytes(tiles));
    name_pair_attention<Shape>(p, tiles);
    p.clusters_of(cells::blocks);
    for (int block = 0; block < cells::blocks; ++block) {
      for (int warp = 0; warp < Shape::loader_warp + (block == leader_block ? 2 : 1); ++warp) {
        p.spawn(0, block, warp, [=, &p](check::context& x) {
          const auto judge = [&p](bool holds, const char* text) { p.require(holds, text); };
          planted<check::context> mine{x, m.bug, p.names()};
          run_pair_attention_on_tokens<Shape>(mine, c, tiles, judge);
        });
      }
    }
    p.at_end([c, &p] { p.require(cells::stored(c), "the output is in memory"); });
  });
}

template <class Shape>
check::result explore_hand_over(int items, const pipeline_mutant& m, const check::bounds& limits) {
  return check::explore(limits, [&](check::program& p) {
    auto* cells = p.allocate<std::uint32_t>(Shape::cells, "stage");
    p.shared_memory(Shape::shared_bytes);
    name_hand_over<Shape>(p);
    p.clusters_of(Shape::blocks);
    for (int block = 0; block < Shape::blocks; ++block) {
      for (int warp = 0; warp < Shape::warps; ++warp) {
        p.spawn(0, block, warp, [=, &p](check::context& x) {
          const auto judge = [&p](bool holds, const char* text) { p.require(holds, text); };
          planted<check::context> mine{x, m.bug, p.names()};
          run_hand_over<Shape>(mine, cells, items, judge);
        });
      }
    }
  });
}

}  // namespace baton::checks
