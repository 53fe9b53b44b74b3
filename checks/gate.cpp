// protocol/gate.hpp: kernels of several blocks in a row on the same two cells.
#include "protocol/gate.hpp"

#include "checks/all.hpp"
#include "checks/planted_context.hpp"

namespace baton::checks {
namespace {

using check::verdict;

struct gate_setting {
  int blocks = 2;
  int warps = 1;
  int kernels = 3;
  int resident_blocks = 0;
  planted_bug bug = {};
};

struct gate_world {
  gate_cells gate;
  std::uint32_t* prepared;  // by block 0 before it opens; overwritten by the last block out (G2)
};

/// One warp of one kernel after another.
template <class X>
void run_gate(X& x, check::program& p, const gate_world& w, int kernels) {
  constexpr std::uint32_t used_up = 999;
  for (std::uint32_t kernel = 1; kernel <= static_cast<std::uint32_t>(kernels); ++kernel) {
    if (x.block() == 0 && x.warp() == 0) {
      x.elect([&] { x.write(w.prepared, kernel); });
      open_gate(x, w.gate);
    }
    if (x.warp() == 0 && !pass_gate(x, w.gate, "test", kernel)) return;
    x.sync_block();
    p.require(x.read(w.prepared) == kernel, "what block 0 prepared for this kernel");
    x.sync_block();
    if (x.warp() == 0 && leave_gate(x, w.gate)) {
      p.require(x.read(w.prepared) == kernel, "nobody else was the last one out");
      x.write(w.prepared, used_up);
    }
    x.next_kernel();
  }
}

check::result check_gate(const gate_setting& s, check::bounds limits) {
  limits.resident_blocks = s.resident_blocks;
  return check::explore(limits, [&](check::program& p) {
    const gate_world w{{p.allocate<std::int32_t>(1, "ready"), p.allocate<std::int32_t>(1, "departed")},
                       p.allocate<std::uint32_t>(1, "prepared")};
    for (int i = 0; i < s.blocks * s.warps; ++i) {
      p.spawn(0, i / s.warps, i % s.warps, [w, &p, &s](check::context& x) {
        planted<check::context> mine{x, s.bug, p.names()};
        run_gate(mine, p, w, s.kernels);
      });
    }
    p.at_end(
        [w, &p] { p.require(*w.gate.ready == 0 && *w.gate.departed == 0, "the gate ends as it began"); });
  });
}

exploration gate_holds(const char* name, gate_setting s) {
  return {name, [s](const check::bounds& limits) { return check_gate(s, limits); }};
}

mutant wrong(const char* name, const char* breaks, std::vector<verdict> noticed_as, const planted_bug& bug,
             int warps = 1) {
  return {name, breaks, std::move(noticed_as), [bug, warps](const check::bounds& limits) {
            return check_gate({.warps = warps, .bug = bug}, limits);
          }};
}

std::vector<mutant> gate_mutants() {
  using enum change;
  constexpr verbs opens = verbs::release_store, passes = verbs::wait, leaves = verbs::add;
  const std::vector<verdict> race{verdict::data_race}, scopes{verdict::scope_race};
  const std::vector<verdict> stale{verdict::data_race, verdict::broken_promise};
  return {wrong("the opening store is relaxed", "G1", race, {.what = opens, .how = relaxed}),
          wrong("the opening store is at block scope", "G1", scopes, {.what = opens, .how = narrow}),
          wrong("passing is relaxed", "G1", race, {.what = passes, .how = relaxed}),
          wrong("passing is at block scope", "G1", scopes, {.what = passes, .how = narrow}),
          wrong("leaving is relaxed", "G2", race, {.what = leaves, .how = relaxed}),
          wrong("leaving does not release", "G2", race, {.what = leaves, .how = without_release}),
          wrong("leaving does not acquire", "G2", race, {.what = leaves, .how = without_acquire}),
          wrong("leaving is at block scope", "G2", scopes, {.what = leaves, .how = narrow}),
          wrong("nobody closes the gate", "Start", {verdict::counter_misuse},
                {.what = verbs::relaxed_store, .how = lost}),
          wrong("opened before all is prepared", "G1", stale,
                {.what = verbs::write, .how = late, .cell = "prepared", .block = 0}),
          wrong("no gate at all", "G1", stale, {.what = passes, .how = lost}),
          wrong("no sync_block after passing", "G1", stale,
                {.what = verbs::sync_block, .how = lost, .time = 1}, 2),
          wrong("no sync_block before leaving", "G2", race,
                {.what = verbs::sync_block, .how = lost, .time = 2}, 2)};
}

}  // namespace

protocol_check gate_check() {
  return {.name = "gate",
          .title = "A gate between block 0 and all blocks of one kernel",
          .headers = {"src/protocol/gate.hpp"},
          .explorations = {gate_holds("2 blocks, 1 kernel", {.kernels = 1}),
                           gate_holds("1 block, 3 kernels", {.blocks = 1, .kernels = 3}),
                           gate_holds("2 blocks, 4 kernels", {.blocks = 2, .kernels = 4}),
                           gate_holds("2 blocks of 2 warps, 3 kernels", {.warps = 2, .kernels = 3}),
                           gate_holds("3 blocks, 3 kernels", {.blocks = 3, .kernels = 3}),
                           gate_holds("4 blocks, 3 kernels", {.blocks = 4, .kernels = 3}),
                           gate_holds("5 blocks, 2 kernels", {.blocks = 5, .kernels = 2}),
                           gate_holds("2 blocks of 4 warps, 5 kernels", {.warps = 4, .kernels = 5}),
                           gate_holds("6 blocks, 3 kernels", {.blocks = 6, .kernels = 3}),
                           gate_holds("the second block begins when the first has ended, 3 kernels",
                                      {.kernels = 3, .resident_blocks = 1})},
          .mutants = gate_mutants()};
}

}  // namespace baton::checks
