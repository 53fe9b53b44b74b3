// The whole choreography on tokens, both head depths. Roles of one warp and one arrival a warp are enough to show every
// order; one exploration has more, as the kernels do.
#include "checks/all.hpp"
#include "checks/pair_exploration.hpp"

namespace baton::checks {
namespace {

using check::verdict;

const std::vector<verdict> any_fault{verdict::data_race, verdict::broken_promise,
                                     verdict::deadlock,  verdict::mbarrier_misuse,
                                     verdict::loose_end, verdict::garbage_read};

template <class Shape>
std::string text_of(int tiles) {
  return std::to_string(tiles) + (tiles == 1 ? " tile, " : " tiles, ") + std::to_string(Shape::kv_stages) +
         " slots" + (Shape::look_ahead == 0 ? "" : ", look-ahead " + std::to_string(Shape::look_ahead)) +
         (Shape::warps_per_role == 1 ? "" : ", " + std::to_string(Shape::warps_per_role) + " warps a role");
}

template <class Shape>
void add_tiles(protocol_check& to, int from, int until) {
  for (int tiles = from; tiles <= until; ++tiles)
    to.explorations.push_back({text_of<Shape>(tiles), [tiles](const check::bounds& limits) {
                                 return explore_pair_attention<Shape>(tiles, no_bug, limits);
                               }});
}

/// Without the waits that are said to order nothing.
template <class Shape>
void add_redundant_waits(protocol_check& to, int tiles) {
  for (const attention_mutant& m : redundant_waits(Shape::look_ahead))
    to.explorations.push_back(
        {text_of<Shape>(tiles) + ", no wait for \"" + m.name + "\"", [tiles, m](const check::bounds& limits) {
           return explore_pair_attention<Shape>(tiles, m, limits);
         }});
}

template <class Shape>
void add_mutants(protocol_check& to, int tiles) {
  for (const attention_mutant& m : attention_mutants<Shape>())
    if (is_a_bug<Shape>(m, tiles))
      to.mutants.push_back({m.name, m.breaks, any_fault, [tiles, m](const check::bounds& limits) {
                              return explore_pair_attention<Shape>(tiles, m, limits);
                            }});
}

template <bool split_o, int fewest_slots>
protocol_check attention_check(std::string name, std::string title) {
  constexpr int tiles = 4;
  protocol_check all{.name = std::move(name),
                     .title = std::move(title),
                     .headers = {"src/protocol/pair_attention/pair_attention.hpp",
                                 "src/protocol/pair_attention/depth512_mbars.hpp"},
                     .explorations = {},
                     .mutants = {}};
  using plain = pair_attention_shape<fewest_slots, split_o, 0, 1, 1>;
  using ahead = pair_attention_shape<fewest_slots + 1, split_o, 1, 1, 1>;
  using far_ahead = pair_attention_shape<fewest_slots + 4, split_o, 2, 1, 1>;
  add_tiles<plain>(all, 1, tiles);
  add_tiles<ahead>(all, 1, tiles);
  add_tiles<far_ahead>(all, tiles, tiles);
  add_tiles<pair_attention_shape<fewest_slots, split_o, 1, 2, 32>>(all, tiles, tiles);
  add_redundant_waits<plain>(all, tiles);
  add_redundant_waits<ahead>(all, tiles);
  add_mutants<far_ahead>(all, tiles);
  return all;
}

}  // namespace

protocol_check pair_attention_512_check() {
  return attention_check<true, 4>("pair_attention_512", "Attention at head depth 512 by a pair of blocks");
}

protocol_check pair_attention_256_check() {
  return attention_check<false, 2>("pair_attention_256", "Attention at head depth 256 by a pair of blocks");
}

}  // namespace baton::checks
