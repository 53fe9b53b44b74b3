// protocol/gate.hpp: kernels of several blocks in a row on the same two cells.
#include "protocol/gate.hpp"

#include "checks/all.hpp"
#include "checks/weakened_context.hpp"

namespace baton::checks {
namespace {

using check::verdict;

enum class gate_fault { none, opens_first, no_sync_after_pass, no_sync_before_leave, no_gate };

struct gate_setting {
  int blocks = 2;
  int warps = 1;
  int kernels = 3;
  int resident_blocks = 0;
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
    if (x.warp() == 0 && s.fault != gate_fault::no_gate && !pass_gate(x, w.gate, "test", kernel)) return;
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
check::result check_gate(const gate_setting& s, check::bounds limits) {
  limits.resident_blocks = s.resident_blocks;
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

exploration holds(const char* name, gate_setting s) {
  return {name, [s](const check::bounds& limits) { return check_gate(s, limits); }};
}

template <weakening Weakening>
mutant weak(const char* name, const char* breaks, std::vector<verdict> noticed_as) {
  return {name, breaks, std::move(noticed_as),
          [](const check::bounds& limits) { return check_gate<Weakening>({}, limits); }};
}

mutant fault(const char* name, const char* breaks, std::vector<verdict> noticed_as, gate_setting s) {
  return {name, breaks, std::move(noticed_as),
          [s](const check::bounds& limits) { return check_gate(s, limits); }};
}

std::vector<mutant> gate_mutants() {
  const std::vector<verdict> race{verdict::data_race}, scopes{verdict::scope_race};
  const std::vector<verdict> stale{verdict::data_race, verdict::broken_promise};
  return {weak<weakening::release_store_relaxed>("the opening store is relaxed", "G1", race),
          weak<weakening::release_store_narrow>("the opening store is at block scope", "G1", scopes),
          weak<weakening::wait_relaxed>("passing is relaxed", "G1", race),
          weak<weakening::wait_narrow>("passing is at block scope", "G1", scopes),
          weak<weakening::add_relaxed>("leaving is relaxed", "G2", race),
          weak<weakening::add_without_release>("leaving does not release", "G2", race),
          weak<weakening::add_without_acquire>("leaving does not acquire", "G2", race),
          weak<weakening::add_narrow>("leaving is at block scope", "G2", scopes),
          weak<weakening::relaxed_store_lost>("nobody closes the gate", "Start", {verdict::counter_misuse}),
          fault("opened before all is prepared", "G1", stale, {.fault = gate_fault::opens_first}),
          fault("no gate at all", "G1", stale, {.fault = gate_fault::no_gate}),
          fault("no sync_block after passing", "G1", stale,
                {.warps = 2, .fault = gate_fault::no_sync_after_pass}),
          fault("no sync_block before leaving", "G2", race,
                {.warps = 2, .fault = gate_fault::no_sync_before_leave})};
}

}  // namespace

protocol_check gate_check() {
  return {.name = "gate",
          .title = "A gate between block 0 and all blocks of one kernel",
          .headers = {"src/protocol/gate.hpp"},
          .explorations = {holds("2 blocks, 1 kernel", {.kernels = 1}),
                           holds("1 block, 3 kernels", {.blocks = 1, .kernels = 3}),
                           holds("2 blocks, 4 kernels", {.blocks = 2, .kernels = 4}),
                           holds("2 blocks of 2 warps, 3 kernels", {.warps = 2, .kernels = 3}),
                           holds("3 blocks, 3 kernels", {.blocks = 3, .kernels = 3}),
                           holds("4 blocks, 3 kernels", {.blocks = 4, .kernels = 3}),
                           holds("5 blocks, 2 kernels", {.blocks = 5, .kernels = 2}),
                           holds("2 blocks of 4 warps, 5 kernels", {.warps = 4, .kernels = 5}),
                           holds("6 blocks, 3 kernels", {.blocks = 6, .kernels = 3}),
                           holds("the second block begins when the first has ended, 3 kernels",
                                 {.kernels = 3, .resident_blocks = 1})},
          .mutants = gate_mutants()};
}

}  // namespace baton::checks
