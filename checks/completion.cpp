// protocol/completion.hpp: blocks of one rank finish their parts, the last one publishes to another rank, which reads
// all parts; kernel after kernel on the same counter.
#include "protocol/completion.hpp"

#include "checks/all.hpp"
#include "checks/weakened_context.hpp"
#include "protocol/arrival.hpp"

namespace baton::checks {
namespace {

using check::verdict;

enum class completion_fault { none, target_low, target_high, finishes_first, no_sync };

struct completion_setting {
  int blocks = 2;
  int warps = 1;
  int kernels = 3;
  int units = 1;  // of each block; block 0 has one more
  completion_fault fault = completion_fault::none;
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
  int target = s.blocks * s.units + 1;
  if (s.fault == completion_fault::target_low) target -= s.units;
  if (s.fault == completion_fault::target_high) ++target;
  const int own = s.units + (x.block() == 0 ? 1 : 0);
  const auto finish_part = [&](std::uint32_t kernel) {
    if (x.warp() == 0 && finish(x, w.counter, own, target)) publish<epoch_arrival>(x, w.sent, kernel, 1);
  };
  for (std::uint32_t kernel = 1; kernel <= static_cast<std::uint32_t>(s.kernels); ++kernel) {
    if (s.fault == completion_fault::finishes_first) finish_part(kernel);
    x.write(w.parts + x.block() * s.warps + x.warp(), kernel);
    if (s.fault != completion_fault::no_sync) x.sync_block();
    if (s.fault != completion_fault::finishes_first) finish_part(kernel);
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

template <weakening Weakening = weakening::none>
check::result check_completion(const completion_setting& s, const check::bounds& limits) {
  return check::explore(limits, [&](check::program& p) {
    const auto parts = static_cast<std::size_t>(s.blocks * s.warps);
    const completion_world w{p.allocate<std::int32_t>(1, "counter"),
                             p.allocate<std::uint32_t>(parts, "parts"), p.allocate<std::uint64_t>(1, "sent"),
                             p.allocate<std::uint64_t>(1, "taken")};
    for (int i = 0; i < s.blocks * s.warps; ++i) {
      p.spawn(0, i / s.warps, i % s.warps, [w, &s](check::context& x) {
        weakened<check::context, Weakening> mine{x};
        run_sender(mine, w, s);
      });
    }
    p.spawn(1, 0, 0, [w, &p, &s](check::context& x) { run_receiver(x, p, w, s); });
    p.at_end([w, &p] { p.require(*w.counter == 0, "the counter ends as it began"); });
  });
}

exploration holds(const char* name, completion_setting s) {
  return {name, [s](const check::bounds& limits) { return check_completion(s, limits); }};
}

template <weakening Weakening>
mutant weak(const char* name, const char* breaks, std::vector<verdict> noticed_as) {
  return {name, breaks, std::move(noticed_as),
          [](const check::bounds& limits) { return check_completion<Weakening>({}, limits); }};
}

mutant fault(const char* name, const char* breaks, std::vector<verdict> noticed_as, completion_setting s) {
  return {name, breaks, std::move(noticed_as),
          [s](const check::bounds& limits) { return check_completion(s, limits); }};
}

std::vector<mutant> completion_mutants() {
  const std::vector<verdict> race{verdict::data_race};
  return {
      weak<weakening::add_relaxed>("the add is relaxed", "C1", race),
      weak<weakening::add_without_release>("the add does not release", "C1", race),
      weak<weakening::add_without_acquire>("the add does not acquire", "C1", race),
      weak<weakening::add_narrow>("the add is at block scope", "C1", {verdict::scope_race}),
      weak<weakening::relaxed_store_lost>("the counter is not reset", "Start", {verdict::counter_misuse}),
      fault("the target is one block short", "C1", race, {.fault = completion_fault::target_low}),
      fault("nobody reaches the target", "Start", {verdict::deadlock},
            {.fault = completion_fault::target_high}),
      fault("finished before the part is written", "C1", race, {.fault = completion_fault::finishes_first}),
      fault("no sync_block before finishing", "C1", race, {.warps = 2, .fault = completion_fault::no_sync})};
}

}  // namespace

protocol_check completion_check() {
  return {.name = "completion",
          .title = "Counting finished work so that exactly one block learns that all is done",
          .headers = {"src/protocol/completion.hpp"},
          .explorations = {holds("2 blocks, 1 kernel", {.kernels = 1}),
                           holds("2 blocks, 4 kernels", {.kernels = 4}),
                           holds("2 blocks of 2 warps, 3 kernels", {.warps = 2, .kernels = 3, .units = 2}),
                           holds("3 blocks, 3 kernels", {.blocks = 3, .kernels = 3}),
                           holds("4 blocks, 3 kernels", {.blocks = 4, .kernels = 3}),
                           holds("5 blocks, 2 kernels", {.blocks = 5, .kernels = 2, .units = 2})},
          .mutants = completion_mutants()};
}

}  // namespace baton::checks
