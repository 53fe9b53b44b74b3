#include "checks/all.hpp"
#include "checks/pair_exploration.hpp"

namespace baton::checks {
namespace {

using check::verdict;

template <class Shape>
exploration pipeline_holds(int items) {
  const auto count = [](int n, const char* what) {
    return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
  };
  return {count(Shape::stages, "stage") + ", " + count(Shape::subs, "sub-stage") + ", " +
              count(Shape::blocks, "block") + " of " + count(Shape::readers, "reader") + ", " +
              count(items, "item"),
          [items](const check::bounds& limits) {
            return explore_hand_over<Shape>(items, right_pipeline, limits);
          }};
}

/// Two stages, two sub-stages, a pair of blocks with two readers each: everything that can go wrong.
using whole = hand_over<2, 2, 2, 2>;

}  // namespace

protocol_check role_pipeline_check() {
  constexpr int items = 7;
  protocol_check all{
      .name = "role_pipeline",
      .title = "A pipeline between two roles over rings of mbarriers",
      .headers = {"src/protocol/role_pipeline.hpp"},
      .explorations = {pipeline_holds<hand_over<1, 1, 1, 1>>(2), pipeline_holds<hand_over<2, 1, 1, 3>>(items),
                       pipeline_holds<hand_over<3, 2, 1, 2>>(items),
                       pipeline_holds<hand_over<1, 1, 2, 2>>(items), pipeline_holds<whole>(items),
                       pipeline_holds<hand_over<4, 1, 2, 4>>(3 * items)},
      .mutants = {}};
  for (const pipeline_mutant& m : pipeline_mutants()) {
    if (!is_a_bug<whole>(m, items)) continue;
    all.mutants.push_back(
        {m.name,
         m.breaks,
         {verdict::data_race, verdict::broken_promise, verdict::deadlock, verdict::mbarrier_misuse},
         [m](const check::bounds& limits) { return explore_hand_over<whole>(items, m, limits); }});
  }
  return all;
}

}  // namespace baton::checks
