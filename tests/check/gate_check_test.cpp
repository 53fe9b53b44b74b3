// protocol/gate.hpp in every schedule: kernels of several blocks in a row on the same two cells; and mutants,
// each of which must be found.
#include <gtest/gtest.h>

#include <iostream>

#include "protocol/gate.hpp"
#include "sim/check.hpp"
#include "tests/check/weakened_context.hpp"

namespace baton {
namespace {

using check::verdict;

enum class gate_fault { none, opens_first, no_sync_after_pass, no_sync_before_leave, no_gate };

struct gate_setting {
  int blocks = 2;
  int warps = 1;
  int kernels = 3;
  gate_fault fault = gate_fault::none;
};

struct gate_world {
  gate_cells gate;
  std::uint32_t* prepared;  // by block 0 before it opens; overwritten by the last block out (G2)
};

/// One warp of one kernel after another.
template <class X>
void run_gate(X& x, check::program& p, const gate_world& w, const gate_setting& s) {
  constexpr std::uint32_t used_up = 999;
  for (std::uint32_t kernel = 1; kernel <= static_cast<std::uint32_t>(s.kernels); ++kernel) {
    if (x.block() == 0 && x.warp() == 0) {
      if (s.fault == gate_fault::opens_first) open_gate(x, w.gate);
      x.elect([&] { x.write(w.prepared, kernel); });
      if (s.fault != gate_fault::opens_first) open_gate(x, w.gate);
    }
    if (x.warp() == 0 && s.fault != gate_fault::no_gate && !pass_gate(x, w.gate, site::test, kernel)) return;
    if (s.fault != gate_fault::no_sync_after_pass) x.sync_block();
    p.require(x.read(w.prepared) == kernel, "what block 0 prepared for this kernel");
    if (s.fault != gate_fault::no_sync_before_leave) x.sync_block();
    if (x.warp() == 0 && leave_gate(x, w.gate)) {
      p.require(x.read(w.prepared) == kernel, "nobody else was the last one out");
      x.write(w.prepared, used_up);
    }
    x.next_kernel();
  }
}

template <weakening Weakening = weakening::none>
check::result check_gate(const gate_setting& s, check::bounds limits = {}) {
  return check::explore(limits, [&](check::program& p) {
    const gate_world w{{p.allocate<std::int32_t>(1, "ready"), p.allocate<std::int32_t>(1, "departed")},
                       p.allocate<std::uint32_t>(1, "prepared")};
    for (int i = 0; i < s.blocks * s.warps; ++i) {
      p.spawn(0, i / s.warps, i % s.warps, [w, &p, &s](check::context& x) {
        weakened<check::context, Weakening> mine{x};
        run_gate(mine, p, w, s);
      });
    }
    p.at_end(
        [w, &p] { p.require(*w.gate.ready == 0 && *w.gate.departed == 0, "the gate ends as it began"); });
  });
}

void expect_holds(const gate_setting& s) {
  const check::result r = check_gate(s);
  EXPECT_TRUE(r.holds()) << r.summary() << "\n" << r.text << "\n" << r.counterexample;
  std::cout << s.blocks << " blocks of " << s.warps << " warps, " << s.kernels << " kernels: " << r.summary()
            << "\n";
}

void expect_killed(const check::result& r, const std::set<verdict>& by) {
  EXPECT_TRUE(by.contains(r.found)) << r.summary() << "\n" << r.text << "\n" << r.counterexample;
}

TEST(gate_check, one_block_passes_its_own_gate) {
  expect_holds({.blocks = 1, .warps = 1, .kernels = 3});
}

TEST(gate_check, two_blocks_four_kernels_have_no_race_and_no_deadlock) {
  expect_holds({.blocks = 2, .warps = 1, .kernels = 4});
}

TEST(gate_check, two_blocks_of_two_warps_three_kernels_have_no_race_and_no_deadlock) {
  expect_holds({.blocks = 2, .warps = 2, .kernels = 3});
}

TEST(gate_check, three_blocks_three_kernels_have_no_race_and_no_deadlock) {
  expect_holds({.blocks = 3, .warps = 1, .kernels = 3});
}

TEST(gate_check, four_blocks_three_kernels_have_no_race_and_no_deadlock) {
  expect_holds({.blocks = 4, .warps = 1, .kernels = 3});
}

TEST(gate_check, mutant_relaxed_open_is_killed) {
  expect_killed(check_gate<weakening::release_store_relaxed>({}), {verdict::data_race});
}

TEST(gate_check, mutant_open_at_block_scope_is_killed) {
  expect_killed(check_gate<weakening::release_store_narrow>({}), {verdict::scope_race});
}

TEST(gate_check, mutant_relaxed_pass_is_killed) {
  expect_killed(check_gate<weakening::wait_relaxed>({}), {verdict::data_race});
}

TEST(gate_check, mutant_pass_at_block_scope_is_killed) {
  expect_killed(check_gate<weakening::wait_narrow>({}), {verdict::scope_race});
}

TEST(gate_check, mutant_leaving_relaxed_is_killed) {
  expect_killed(check_gate<weakening::add_relaxed>({}), {verdict::data_race});
}

TEST(gate_check, mutant_leaving_without_release_is_killed) {
  expect_killed(check_gate<weakening::add_without_release>({}), {verdict::data_race});
}

TEST(gate_check, mutant_leaving_without_acquire_is_killed) {
  expect_killed(check_gate<weakening::add_without_acquire>({}), {verdict::data_race});
}

TEST(gate_check, mutant_leaving_at_block_scope_is_killed) {
  expect_killed(check_gate<weakening::add_narrow>({}), {verdict::scope_race});
}

TEST(gate_check, mutant_a_gate_that_nobody_closes_is_killed) {
  expect_killed(check_gate<weakening::relaxed_store_lost>({}), {verdict::data_race, verdict::broken_promise});
}

TEST(gate_check, mutant_opening_before_preparing_is_killed) {
  expect_killed(check_gate({.fault = gate_fault::opens_first}),
                {verdict::data_race, verdict::broken_promise});
}

TEST(gate_check, mutant_no_gate_at_all_is_killed) {
  expect_killed(check_gate({.fault = gate_fault::no_gate}), {verdict::data_race, verdict::broken_promise});
}

TEST(gate_check, mutant_no_sync_block_after_passing_is_killed) {
  expect_killed(check_gate({.warps = 2, .fault = gate_fault::no_sync_after_pass}),
                {verdict::data_race, verdict::broken_promise});
}

TEST(gate_check, mutant_no_sync_block_before_leaving_is_killed) {
  expect_killed(check_gate({.warps = 2, .fault = gate_fault::no_sync_before_leave}), {verdict::data_race});
}

}  // namespace
}  // namespace baton
