// The roles of the ring-buffered matrix product (protocol/ring/product_roles.hpp): every number of 1 or 2 warp tiles, of
// producers and of consumers, in both orders. What why_not admits must finish; what it refuses must be seen to stop.
#include "protocol/ring/product_roles.hpp"

#include <algorithm>
#include <string>

#include "checks/all.hpp"
#include "checks/ring_exploration.hpp"
#include "protocol/ring/per_reader_flags.hpp"
#include "protocol/ring/single_counter.hpp"
#include "protocol/ring/split_counter.hpp"

namespace baton::checks {
namespace {

using check::verdict;

struct product_plan {
  ring_plan a, b;
};

struct product_setting {
  int steps = 1;
  int products = 1;  // in a row
  planted_bug bug = {};
};

template <class Ring>
std::uint32_t* word_of(const Ring& ring, int tile, int stage) {
  return reinterpret_cast<std::uint32_t*>(ring.slot(tile, stage));
}

/// Operands are numbered fills: 100 a product, 10 a step of k, 1 a tile; those of B from 1000 on.
constexpr std::uint32_t operand(int product, int k, int tile) {
  return static_cast<std::uint32_t>(100 * product + 10 * k + tile);
}

template <class Producer, class Ring, class X>
bool produce(X& x, tile_order order, Producer producer, const Ring& ring, std::uint32_t offset,
             const product_setting& s) {
  std::uint32_t item = 0;
  for (int i = 0; i < s.products; ++i) {
    const auto fetch = [&](int, int tile, int k) { item = offset + operand(i, k, tile); };
    const auto put = [&](int, int tile, int stage) { x.write(word_of(ring, tile, stage), item); };
    if (!producer.run(x, order, s.steps, fetch, put)) return false;
  }
  return true;
}

template <product_roles R, class Consumer, class RingA, class RingB, class X>
bool consume(X& x, check::program& p, Consumer consumer, const RingA& a, const RingB& b,
             const product_setting& s) {
  int turns[R.tiles()] = {};
  for (int i = 0; i < s.products; ++i) {
    const bool ended = consumer.run(x, R.order, s.steps, [&](int t, int stage_a, int stage_b) {
      const int k = turns[t] % s.steps, product = turns[t] / s.steps;
      ++turns[t];
      const int m = consumer.m_of(t), n = consumer.n_of(t);
      p.require(x.read(word_of(a, m, stage_a)) == operand(product, k, m), "A of this step");
      p.require(x.read(word_of(b, n, stage_b)) == 1000 + operand(product, k, n), "B of this step");
    });
    if (!ended) return false;
  }
  return true;
}

template <template <ring_shape> class Strategy, product_roles R, class X>
bool run_role(X& x, check::program& p, const product_plan& plan, const product_setting& s) {
  const ring_buffer<Strategy<R.a_ring()>> a{x, plan.a};
  const ring_buffer<Strategy<R.b_ring()>> b{x, plan.b};
  a.init(x);
  b.init(x);
  x.sync_block();
  const int warp = x.warp(), b_warp = warp - R.a_producers, c_warp = b_warp - R.b_producers;
  using a_producer = product_producer<Strategy<R.a_ring()>, R.a_tiles()>;
  using b_producer = product_producer<Strategy<R.b_ring()>, R.b_tiles()>;
  using consumer = product_consumer<Strategy<R.a_ring()>, Strategy<R.b_ring()>, R.tiles()>;
  if (b_warp < 0) return produce(x, R.order, a_producer{a, warp, R.a_producers}, a, 0, s);
  if (c_warp < 0) return produce(x, R.order, b_producer{b, b_warp, R.b_producers}, b, 1000, s);
  return consume<R>(x, p, consumer{a, b, c_warp, R.consumers}, a, b, s);
}

template <template <ring_shape> class Strategy, product_roles R>
check::result explore_product(const product_setting& s, const check::bounds& limits) {
  return check::explore(limits, [=](check::program& p) {
    shared_plan block;
    const product_plan plan{take_ring<Strategy<R.a_ring()>>(block, 4),
                            take_ring<Strategy<R.b_ring()>>(block, 4)};
    p.shared_memory(block.bytes);
    name_ring<Strategy<R.a_ring()>>(p, plan.a, " of A");
    name_ring<Strategy<R.b_ring()>>(p, plan.b, " of B");
    for (int w = 0; w < R.warps(); ++w) {
      p.spawn(0, 0, w, [=, &p](check::context& x) {
        planted<check::context> mine{x, s.bug, p.names()};
        run_role<Strategy, R>(mine, p, plan, s);
      });
    }
  });
}

std::string text(const product_roles& r) {
  return std::to_string(r.m_warps) + "x" + std::to_string(r.n_warps) + " tiles, " +
         std::to_string(r.a_producers) + "+" + std::to_string(r.b_producers) + " producers, " +
         std::to_string(r.consumers) + (r.consumers == 1 ? " consumer" : " consumers");
}

/// Numbers of warps in each role, with flags and one slot a tile.
struct combination {
  product_roles roles;
  std::function<check::result(const check::bounds&)> longer;   // more than twice as many steps as slots
  std::function<check::result(const check::bounds&)> as_long;  // as many steps as slots
};

template <product_roles R>
void add(std::vector<combination>& to) {
  const auto of_steps = [](int steps) {
    return [steps](const check::bounds& limits) {
      return explore_product<per_reader_flags, R>({.steps = steps}, limits);
    };
  };
  to.push_back({R, of_steps(2 * R.stages + 1), of_steps(R.stages)});
}

template <int m, int n, int consumers, tile_order order>
void with_producers(std::vector<combination>& to) {
  if constexpr (m * n % consumers == 0) {
    add<product_roles{1, m, n, 1, 1, consumers, order}>(to);
    if constexpr (m == 2) add<product_roles{1, m, n, 2, 1, consumers, order}>(to);
    if constexpr (n == 2) add<product_roles{1, m, n, 1, 2, consumers, order}>(to);
    if constexpr (m == 2 && n == 2) add<product_roles{1, m, n, 2, 2, consumers, order}>(to);
  }
}

template <int consumers, tile_order order>
void with_tiles(std::vector<combination>& to) {
  with_producers<1, 1, consumers, order>(to);
  with_producers<2, 1, consumers, order>(to);
  with_producers<1, 2, consumers, order>(to);
  with_producers<2, 2, consumers, order>(to);
}

template <tile_order order>
std::vector<combination> combinations() {
  std::vector<combination> all;
  with_tiles<1, order>(all);
  with_tiles<2, order>(all);
  with_tiles<4, order>(all);
  return all;
}

/// One exploration of many: what it counts is summed, the first finding is its finding.
template <class Run>
exploration each_of(std::vector<combination> all, std::string name, Run combination::*which) {
  name = std::to_string(all.size()) + " combinations " + name;
  return {std::move(name), [all = std::move(all), which](const check::bounds& limits) {
            check::result sum;
            sum.complete = true;
            for (const combination& c : all) {
              const check::result r = (c.*which)(limits);
              sum.complete = sum.complete && r.complete;
              sum.executions += r.executions;
              sum.cut += r.cut;
              sum.steps += r.steps;
              sum.seconds += r.seconds;
              sum.longest = std::max(sum.longest, r.longest);
              if (r.found == verdict::none) continue;
              sum.found = r.found;
              sum.violations = r.violations;
              sum.text = text(c.roles) + ": " + r.text;
              sum.counterexample = r.counterexample;
              break;
            }
            return sum;
          }};
}

template <template <ring_shape> class Strategy, product_roles R>
exploration product_holds(const char* name, product_setting s) {
  return {name, [s](const check::bounds& limits) { return explore_product<Strategy, R>(s, limits); }};
}

constexpr product_roles roles_of_three_warps{1, 1, 1, 1, 1, 1};
constexpr product_roles two_consumers{2, 1, 2, 1, 1, 2};
constexpr product_roles shared_producers{1, 2, 2, 1, 1, 2};
constexpr product_roles documented_roles{2, 2, 2, 2, 2, 4};

mutant wrong_product(const char* name, const char* breaks, std::vector<verdict> noticed_as,
                     const planted_bug& bug) {
  return {name, breaks, std::move(noticed_as), [bug](const check::bounds& limits) {
            return explore_product<per_reader_flags, two_consumers>({.steps = 4, .bug = bug}, limits);
          }};
}

}  // namespace

protocol_check ring_product_check() {
  protocol_check all{.name = "ring_product",
                     .title = "Roles of a matrix product over two ring buffers",
                     .headers = {"src/protocol/ring/product_roles.hpp", "src/protocol/sync_strategy.hpp"},
                     .explorations = {},
                     .mutants = {}};
  std::vector<combination> across = combinations<tile_order::across_k>(), admitted;
  for (combination& c : across) {
    if (why_not(c.roles) == nullptr)
      admitted.push_back(c);
    else
      all.mutants.push_back({"across k, " + text(c.roles), "Progress", {verdict::deadlock}, c.longer});
  }
  all.explorations = {
      product_holds<per_reader_flags, roles_of_three_warps>("1x1 tiles, 3 warps, 1 slot, 2 steps",
                                                            {.steps = 2}),
      each_of(combinations<tile_order::within_k>(), "within k, 1 slot, 3 steps", &combination::longer),
      each_of(std::move(admitted), "across k, 1 slot, 3 steps", &combination::longer),
      each_of(std::move(across), "across k, 1 slot, 1 step", &combination::as_long),
      product_holds<split_counter_sync, two_consumers>("1x2 tiles, 2 slots, 2 products of 3 steps, split",
                                                       {3, 2}),
      product_holds<split_counter_sync, shared_producers>("2x2 tiles, 1 slot, 2 products of 2 steps, split",
                                                          {2, 2}),
      product_holds<single_counter_sync, two_consumers>("1x2 tiles, 2 slots, 2 products of 2 steps, single",
                                                        {2, 2}),
      product_holds<per_reader_flags, documented_roles>("2x2 tiles, 2 slots, 2 products of 5 steps, flags",
                                                        {5, 2})};
  const std::vector<verdict> stale{verdict::data_race, verdict::broken_promise, verdict::garbage_read};
  const std::vector<mutant> of_rings{
      wrong_product("waits are relaxed", "F1, F2", stale, {.what = verbs::waits, .how = change::relaxed}),
      wrong_product("signals are relaxed", "F1, F2", stale, {.what = verbs::signals, .how = change::relaxed}),
      wrong_product("producers do not wait for the last read", "F2", stale, ring_refills_early),
      wrong_product("consumers do not wait for the fill", "F1", stale, ring_reads_early),
      wrong_product("a consumer never releases", "Progress", {verdict::deadlock},
                    {.what = verbs::signals, .how = change::lost, .warp = 2})};
  all.mutants.insert(all.mutants.begin(), of_rings.begin(), of_rings.end());
  return all;
}

}  // namespace baton::checks
