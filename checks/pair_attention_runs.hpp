#pragma once
// Pair attention on tokens, right or with a planted bug, over any back end. What the bugs are and what each
// must be killed by is said once, here.
#include <ostream>
#include <vector>

#include "checks/pair_attention_tokens.hpp"
#include "checks/planted_context.hpp"
#include "protocol/pair_attention/pair_attention.hpp"

namespace baton::checks {

/// Some address, to take offsets from.
inline std::byte* no_shared_memory() {
  alignas(256) static std::byte first[1 << 16];
  return first;
}

template <class Shape, class Names>
void name_pair_attention(Names& p, int tiles) {
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
    return static_cast<std::size_t>(static_cast<const std::byte*>(at) - no_shared_memory());
  };
  p.name_shared(offset(cells::slots(no_shared_memory())), sizeof(vec16), Shape::kv_stages, "slot");
  p.name_shared(offset(cells::q(no_shared_memory())), sizeof(vec16), Shape::qk_stages, "Q");
  p.name_shared(offset(cells::issued(no_shared_memory())), sizeof(mbarrier),
                static_cast<std::size_t>(cells::num_commands(tiles)), "issued");
}

struct attention_mutant {
  const char* name;
  const char* breaks;  // the edge, as protocol/pair_attention/pair_attention.hpp names it
  planted_bug bug = {};
  int from_look_ahead = 0;  // where it is a bug at all
  int to_look_ahead = 2;
  int from_tiles = 1;  // how many tiles it takes to show
};
inline std::ostream& operator<<(std::ostream& out, const attention_mutant& m) {
  return out << m.name;
}

inline planted_bug no_wait_at(site where) {
  return {.what = verbs::mbarrier_wait, .how = change::lost, .where = where};
}

/// Everything planted into a shape.
template <class Shape>
std::vector<attention_mutant> attention_mutants() {
  using enum change;
  using at = attention_sites;
  constexpr verbs wait = verbs::mbarrier_wait, arrive = verbs::mbarrier_arrive;
  constexpr int softmax = 0, correction = Shape::warps_per_role, tensor_core = Shape::loader_warp + 1;
  constexpr int one_copy = sizeof(vec16), role_arrivals = Shape::mbars::role_arrivals;
  return {
      {"no dummy arrival",
       "A6",
       {.what = arrive, .how = lost, .cell = "po_lo", .warp = correction, .time = 1}},
      {"output ready too early",  // PO_lo counts the softmax only
       "A6",
       {.what = verbs::mbarrier_init, .how = shifted, .cell = "po_lo", .by = -2 * role_arrivals}},
      {"arrives in own block", "Progress", {.what = arrive, .how = own}},
      {"first slot acquire waits",
       "Start, K2",
       {.what = wait, .how = shifted, .where = at::slot_free(), .by = 1}},
      {"first output acquire falls through",
       "A3",
       {.what = wait, .how = shifted, .where = at::p_ready(), .epoch = 0, .by = 1}},
      {"slot not acquired", "K2", no_wait_at(at::slot_free()), 0, 2, 3},
      {"slot released by the issuer",  // before its product is done
       "K2",
       {.what = verbs::read, .how = late, .cell = "slot", .warp = tensor_core},
       0,
       2,
       3},
      {"a copy too few is expected", "K1", {.what = verbs::mbarrier_expect, .how = shifted, .by = -one_copy}},
      {"slot read unfilled", "K1", no_wait_at(at::slot_filled())},
      {"scores not awaited", "A1", no_wait_at(at::s_ready())},
      {"scores released unread",
       "A2",
       {.what = verbs::read, .how = late, .cell = "S", .warp = softmax, .until = verbs::mbarrier_wait},
       2,
       2,
       3},
      {"live scores overwritten", "A2", no_wait_at(at::s_free()), 2, 2, 3},
      {"weights not awaited", "A3", no_wait_at(at::p_ready())},
      {"weights overwritten", "A3", no_wait_at(at::p_free()), 1, 2, 2},
      {"factor not awaited", "A4", no_wait_at(at::factor_ready()), 0, 2, 2},
      {"factor overwritten", "A7", no_wait_at(at::factor_free()), 1, 2, 3},
      {"output multiplied early", "A5", no_wait_at(at::o_ready()), 1, 2, 2},
      {"output stored early", "A5", no_wait_at(at::o_final())},
      {"no proxy fence", "A5", {.what = verbs::fence_proxy, .how = lost}},
  };
}
/// A wait that orders nothing with this look-ahead or less: without it nothing may go wrong.
inline std::vector<attention_mutant> redundant_waits(int look_ahead) {
  std::vector<attention_mutant> waits;
  if (look_ahead < 2) waits.push_back({"S buffer free", "", no_wait_at(attention_sites::s_free())});
  if (look_ahead < 1) {
    waits.push_back({"factor's place free", "", no_wait_at(attention_sites::factor_free())});
    waits.push_back({"O grown", "", no_wait_at(attention_sites::o_ready())});
  }
  return waits;
}
template <class Shape>
bool is_a_bug(const attention_mutant& m, int tiles) {
  return Shape::look_ahead >= m.from_look_ahead && Shape::look_ahead <= m.to_look_ahead &&
         tiles >= m.from_tiles;
}

/// One warp's whole run.
template <class Shape, class Base, class Judge>
void run_pair_attention_on_tokens(planted<Base>& x, const pair_attention_cells<Shape>& cells, int tiles,
                                  Judge& judge) {
  pair_attention_tokens<Shape, planted<Base>, Judge> work{x, cells, tiles, judge};
  const typename Shape::mbars bars{pair_attention_cells<Shape>::barriers(x.shared())};
  run_pair_attention<Shape>(x, bars, tiles, work);
  judge(!x.has_read_too_late(), "what is read is read while it is there");
}

inline const attention_mutant no_bug{"none", ""};

}  // namespace baton::checks
