// kernels/ring_gemm/kernel.hpp, the product's kernel itself, on small tiles: roles, rings, the walk over tiles of C, and
// the sums, which must be exact.
#include "kernels/ring_gemm/kernel.hpp"

#include <string>

#include "checks/all.hpp"
#include "checks/planted_context.hpp"
#include "sim/mma_verbs.hpp"

namespace baton::checks {
namespace {

using check::verdict;
using ring_gemm_kernels::config;
using ring_gemm_kernels::params;

/// The checker's context with the verbs of matrix products.
class product_context : public check::context, public sim::mma_verbs<product_context> {
 public:
  explicit product_context(const check::context& x) : check::context{x} {}
};

struct gemm_setting {
  int blocks = 1;
  int m = 16, n = 16, k = 192;
  planted_bug bug = {};
};

/// Small whole numbers: sums of them are exact in any order.
bfloat16 entry(int row, int column) {
  return bfloat16{static_cast<float>((3 * row + 5 * column) % 7 - 3)};
}

params make_operands(check::program& p, const gemm_setting& s) {
  const auto filled = [&](int rows, const char* name) {
    auto* matrix = p.allocate<bfloat16>(static_cast<std::size_t>(rows * s.k), name);
    for (int i = 0; i < rows * s.k; ++i) matrix[i] = entry(i / s.k, i % s.k);
    return matrix;
  };
  auto* c = p.allocate<float>(static_cast<std::size_t>(s.m * s.n), "C");
  return {.a = filled(s.m, "A"),
          .b = filled(s.n, "B"),
          .c = c,
          .m = s.m,
          .n = s.n,
          .k = s.k,
          .vectors = s.k % 8 == 0};
}

bool is_product(const params& p) {
  for (int i = 0; i < p.m * p.n; ++i) {
    float sum = 0.0f;
    for (int k = 0; k < p.k; ++k)
      sum += static_cast<float>(entry(i / p.n, k)) * static_cast<float>(entry(i % p.n, k));
    if (p.c[i] != sum) return false;
  }
  return true;
}

template <config C>
check::result explore_gemm(const gemm_setting& s, const check::bounds& limits) {
  constexpr ring_gemm_kernels::block_plan<C> plan;
  return check::explore(limits, [=](check::program& p) {
    const params operands = make_operands(p, s);
    p.shared_memory(plan.bytes);
    p.name_shared(plan.a.slots.offset, 16, (plan.b.slots.offset - plan.a.slots.offset) / 16, "A slots");
    p.name_shared(plan.b.slots.offset, 16, (plan.a.cells.offset - plan.b.slots.offset) / 16, "B slots");
    p.name_shared(plan.a.cells.offset, 4, (plan.b.cells.offset - plan.a.cells.offset) / 4, "A cell");
    p.name_shared(plan.b.cells.offset, 4, (plan.bytes - plan.b.cells.offset) / 4, "B cell");
    for (int i = 0; i < s.blocks * C.roles.warps(); ++i) {
      p.spawn(0, i / C.roles.warps(), i % C.roles.warps(), [operands, s, &p](check::context& x) {
        planted<product_context> mine{product_context{x}, s.bug, p.names()};
        ring_gemm_kernels::block_role<C, planted<product_context>>{mine, operands}.run();
      });
    }
    p.at_end([operands, &p] { p.require(is_product(operands), "C is the product"); });
  });
}

/// Two slots a tile, a consumer, a producer of each operand.
constexpr config three_warps(ring_strategy s) {
  return {.strategy = s, .warp_m = 16, .warp_n = 16, .roles = {2, 1, 1, 1, 1, 1}};
}
/// Two tiles of A and a consumer of each, so that B has two readers; one slot a tile.
constexpr config two_readers(ring_strategy s) {
  return {.strategy = s, .warp_m = 16, .warp_n = 16, .roles = {1, 2, 1, 1, 1, 2}};
}

template <ring_strategy S>
void add_strategy(protocol_check& to, const std::string& name) {
  const auto holds = [&](const char* size, auto config_of, const gemm_setting& s) {
    to.explorations.push_back({size + (", " + name), [s](const check::bounds& limits) {
                                 return explore_gemm<decltype(config_of)::value>(s, limits);
                               }});
  };
  holds("3 warps, 1 tile of C, 3 steps", constant<three_warps(S)>{}, {});
  holds("3 warps, 3 tiles of C, 3 steps, edges", constant<three_warps(S)>{}, {.m = 16, .n = 37, .k = 150});
  holds("2 blocks of 3 warps, 3 tiles of C, 2 steps", constant<three_warps(S)>{},
        {.blocks = 2, .n = 48, .k = 128});
  holds("4 warps, 2 readers of B, 2 tiles of C, 2 steps", constant<two_readers(S)>{},
        {.m = 32, .n = 32, .k = 128});
}

template <ring_strategy S>
mutant relaxed(const char* name, verbs what) {
  const planted_bug bug{.what = what, .how = change::relaxed};
  return {name, "F1, F2", {verdict::data_race, verdict::broken_promise}, [bug](const check::bounds& limits) {
            return explore_gemm<two_readers(S)>({.m = 32, .bug = bug}, limits);
          }};
}

}  // namespace

protocol_check ring_gemm_check() {
  protocol_check all{.name = "ring_gemm",
                     .title = "The ring-buffered matrix product, as it runs",
                     .headers = {"src/kernels/ring_gemm/kernel.hpp", "src/protocol/ring/product_roles.hpp",
                                 "src/protocol/sync_strategy.hpp"},
                     .explorations = {},
                     .mutants = {}};
  add_strategy<ring_strategy::single_counter>(all, "single");
  add_strategy<ring_strategy::split_counter>(all, "split");
  add_strategy<ring_strategy::per_reader_flags>(all, "flags");
  add_strategy<ring_strategy::mbarrier>(all, "mbarrier");
  all.mutants = {relaxed<ring_strategy::single_counter>("single counters are counted relaxed", verbs::add),
                 relaxed<ring_strategy::split_counter>("split counters are counted relaxed", verbs::add),
                 relaxed<ring_strategy::per_reader_flags>("flags are stored relaxed", verbs::release_store),
                 relaxed<ring_strategy::per_reader_flags>("flags are awaited relaxed", verbs::wait),
                 relaxed<ring_strategy::split_counter>("split counters are awaited relaxed", verbs::wait)};
  return all;
}

}  // namespace baton::checks
