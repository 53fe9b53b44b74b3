// The checker against axioms: on random programs both find something wrong, or both find the same outcomes.
// BATON_AXIOM_PROGRAMS sets how many of each kind; BATON_AXIOM_SEED which.
#include "tests/check/axioms.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

namespace baton {
namespace {

int from_environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

struct axiom_tally {
  int wrong = 0, clean = 0;
};

/// Empty if they agree.
std::string disagreement(const litmus::axiom_program& program, const check::bounds& limits, axiom_tally& t) {
  const litmus::truth truth = litmus::axioms{program}.enumerate();
  std::set<std::string> outcomes;
  const check::result r = litmus::explored(program, limits, outcomes);
  const bool wrong = r.found != check::verdict::none;
  ++(truth.wrong() ? t.wrong : t.clean);
  if (wrong != truth.wrong())
    return program.text() +
           (wrong ? "\n  only the checker: " + r.text : "\n  only the axioms find something");
  if (!wrong && (!r.complete || outcomes != truth.outcomes))
    return program.text() + "\n  outcomes: " + std::to_string(outcomes.size()) + ", by the axioms " +
           std::to_string(truth.outcomes.size());
  return {};
}

axiom_tally compare(bool plain) {
  litmus::axiom_program_maker maker{
      static_cast<unsigned>(from_environment("BATON_AXIOM_SEED", plain ? 2 : 1))};
  axiom_tally t;
  for (int n = from_environment("BATON_AXIOM_PROGRAMS", 1000); n > 0; --n) {
    const litmus::axiom_program program = maker.make(plain);
    for (const auto how : {check::reduction::sleep, check::reduction::dpor}) {
      check::bounds limits;
      limits.how = how;
      const std::string differs = disagreement(program, limits, t);
      EXPECT_EQ(differs, "") << "reduction " << static_cast<int>(how);
      if (!differs.empty()) return t;
    }
  }
  std::cout << t.wrong / 2 << " wrong programs, " << t.clean / 2 << " others\n";
  return t;
}

TEST(axioms, allow_the_outcomes_that_the_search_finds) {
  const axiom_tally t = compare(false);
  EXPECT_GT(t.clean, t.wrong / 4);
}

TEST(axioms, find_the_races_that_the_search_finds) {
  const axiom_tally t = compare(true);
  EXPECT_GT(t.clean, t.wrong / 8);
}

/// What axioms without cycles of program order and rf do not have: docs/checker.md.
TEST(axioms, have_no_load_buffering) {
  litmus::axiom_program p;
  for (int w = 0; w < 2; ++w) {
    p.at.push_back({w, 0, 0});
    p.warps.push_back({{litmus::act::load, w, 0, order::relaxed, scope::system, false},
                       {litmus::act::store, 1 - w, 1, order::relaxed, scope::system, false}});
  }
  EXPECT_EQ(litmus::axioms{p}.enumerate().outcomes.size(), 3u);  // of 4 in PTX
}

/// A fault planted into the checker makes it disagree with the axioms.
class planted_against_axioms : public testing::TestWithParam<check::planted_fault> {};

TEST_P(planted_against_axioms, is_noticed) {
  check::bounds limits;
  limits.fault = GetParam();
  axiom_tally t;
  for (const bool plain : {false, true}) {
    litmus::axiom_program_maker maker{3};
    for (int n = 0; n < 6000; ++n)
      if (!disagreement(maker.make(plain), limits, t).empty()) return;
  }
  FAIL() << "nothing notices " << check::name(GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    each, planted_against_axioms,
    testing::Values(check::planted_fault::clock_stands_still, check::planted_fault::acquire_forgets,
                    check::planted_fault::relaxed_acquires, check::planted_fault::relaxed_releases,
                    check::planted_fault::fences_ignored, check::planted_fault::scopes_ignored,
                    check::planted_fault::newest_only, check::planted_fault::coherence_forgotten,
                    check::planted_fault::rmw_breaks_release, check::planted_fault::races_not_reversed,
                    check::planted_fault::writes_not_reversed, check::planted_fault::sleepers_never_wake,
                    check::planted_fault::reads_leave_no_trace, check::planted_fault::stores_in_any_order),
    [](const auto& info) { return std::string{check::name(info.param)}; });

}  // namespace
}  // namespace baton
