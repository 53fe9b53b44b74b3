// protocol/completion.hpp: blocks of one rank finish their parts, the last one publishes to another rank, which reads
// all parts; kernel after kernel on the same counter.
#include "protocol/completion.hpp"

#include "checks/all.hpp"
#include "checks/planted_context.hpp"
#include "protocol/arrival.hpp"

namespace baton::checks {
namespace {

using check::verdict;

struct completion_setting {
  int blocks = 2;
  int warps = 1;
  int kernels = 3;
  int units = 1;  // of each block; block 0 has one more
  planted_bug bug = {};
};

struct completion_world {
  std::int32_t* counter;
  std::uint32_t* parts;  // [blocks, warps], in the receiver's memory
  std::uint64_t* sent;   // the receiver's arrival word
  std::uint64_t* taken;  // the sender's: the parts may be overwritten
};

template <class X>
bool await_one(X& x, std::uint64_t* word, std::uint32_t epoch) {
  typename X::template lanes<std::uint64_t*> words{};
  typename X::template lanes<std::uint64_t> seen{};
  words[0] = word;
  return await<epoch_arrival>(x, words, 1, wait_site{.where = "test", .epoch = epoch}, seen);
}

/// A warp of rank 0.
template <class X>
void run_sender(X& x, const completion_world& w, const completion_setting& s) {
  const int own = s.units + (x.block() == 0 ? 1 : 0), target = s.blocks * s.units + 1;
  for (std::uint32_t kernel = 1; kernel <= static_cast<std::uint32_t>(s.kernels); ++kernel) {
    x.write(w.parts + x.block() * s.warps + x.warp(), kernel);
    x.sync_block();
    if (x.warp() == 0 && finish(x, w.counter, own, target)) publish<epoch_arrival>(x, w.sent, kernel, 1);
    x.next_kernel();
    if (x.block() == 0 && x.warp() == 0 && !await_one(x, w.taken, kernel)) return;
    x.next_kernel();
  }
}

/// The only warp of rank 1.
template <class X>
void run_receiver(X& x, check::program& p, const completion_world& w, const completion_setting& s) {
  for (std::uint32_t kernel = 1; kernel <= static_cast<std::uint32_t>(s.kernels); ++kernel) {
    if (!await_one(x, w.sent, kernel)) return;
    for (int i = 0; i < s.blocks * s.warps; ++i)
      p.require(x.read(w.parts + i) == kernel, "every part is this kernel's");
    publish<epoch_arrival>(x, w.taken, kernel, 1);
  }
}

check::result check_completion(const completion_setting& s, const check::bounds& limits) {
  return check::explore(limits, [&](check::program& p) {
    const auto parts = static_cast<std::size_t>(s.blocks * s.warps);
    const completion_world w{p.allocate<std::int32_t>(1, "counter"),
                             p.allocate<std::uint32_t>(parts, "parts"), p.allocate<std::uint64_t>(1, "sent"),
                             p.allocate<std::uint64_t>(1, "taken")};
    for (int i = 0; i < s.blocks * s.warps; ++i) {
      p.spawn(0, i / s.warps, i % s.warps, [w, &p, &s](check::context& x) {
        planted<check::context> mine{x, s.bug, p.names()};
        run_sender(mine, w, s);
      });
    }
    p.spawn(1, 0, 0, [w, &p, &s](check::context& x) { run_receiver(x, p, w, s); });
    p.at_end([w, &p] { p.require(*w.counter == 0, "the counter ends as it began"); });
  });
}

exploration completion_holds(const char* name, completion_setting s) {
  return {name, [s](const check::bounds& limits) { return check_completion(s, limits); }};
}

mutant wrong(const char* name, const char* breaks, verdict noticed_as, const planted_bug& bug,
             int warps = 1) {
  return {name, breaks, {noticed_as}, [bug, warps](const check::bounds& limits) {
            return check_completion({.warps = warps, .bug = bug}, limits);
          }};
}

std::vector<mutant> completion_mutants() {
  using enum change;
  constexpr verbs add = verbs::add, target = verbs::target;
  constexpr verdict race = verdict::data_race;
  return {wrong("the add is relaxed", "C1", race, {.what = add, .how = relaxed}),
          wrong("the add does not release", "C1", race, {.what = add, .how = without_release}),
          wrong("the add does not acquire", "C1", race, {.what = add, .how = without_acquire}),
          wrong("the add is at block scope", "C1", verdict::scope_race, {.what = add, .how = narrow}),
          wrong("the counter is not reset", "Start", verdict::counter_misuse,
                {.what = verbs::relaxed_store, .how = lost}),
          wrong("the target is one block short", "C1", race, {.what = target, .how = shifted, .by = -1}),
          wrong("nobody reaches the target", "Start", verdict::deadlock,
                {.what = target, .how = shifted, .by = 1}),
          wrong("finished before the part is written", "C1", race,
                {.what = verbs::write, .how = late, .cell = "parts"}),
          wrong("no sync_block before finishing", "C1", race, {.what = verbs::sync_block, .how = lost}, 2)};
}

}  // namespace

protocol_check completion_check() {
  return {.name = "completion",
          .title = "Counting finished work so that exactly one block learns that all is done",
          .headers = {"src/protocol/completion.hpp"},
          .explorations = {completion_holds("2 blocks, 1 kernel", {.kernels = 1}),
                           completion_holds("2 blocks, 4 kernels", {.kernels = 4}),
                           completion_holds("2 blocks of 2 warps, 3 kernels",
                                            {.warps = 2, .kernels = 3, .units = 2}),
                           completion_holds("3 blocks, 3 kernels", {.blocks = 3, .kernels = 3}),
                           completion_holds("4 blocks, 3 kernels", {.blocks = 4, .kernels = 3}),
                           completion_holds("5 blocks, 2 kernels", {.blocks = 5, .kernels = 2, .units = 2})},
          .mutants = completion_mutants()};
}

}  // namespace baton::checks
