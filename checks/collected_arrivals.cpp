// Block 0 of a waiting kernel by itself: two warps wait for a word each, both may give up, and both have to come to the
// same answer. In whole kernels this takes more than 32 pairs, and too many executions.
#include <array>
#include <memory>

#include "checks/exchange_protocols.hpp"
#include "kernels/ep/per_expert/waiting.hpp"
#include "sim/check.hpp"

namespace baton::checks {
namespace {

constexpr int second = warp_lanes;  // the first pair that is warp 1's
constexpr std::array<int, 2> sent = {5, 7};

struct collecting_world {
  std::uint64_t* words;             // [2]: of pairs 0 and `second`; the others' ranks have no such expert
  std::int32_t* rows;               // [2]: what was noted of them
  std::uint32_t* completed;         // rounds
  std::array<bool, 2> collected{};  // each warp's answer
};

template <class Arrival>
void collect(check::context& x, check::program& p, collecting_world& w) {
  const ep::waiting_plan shared;
  const auto word = [&](int pair) { return pair % second == 0 ? w.words + pair / second : nullptr; };
  const auto any = [](int) { return -1; };
  const auto note = [&](int pair, int rows) { x.write(w.rows + pair / second, rows); };
  std::uint32_t epoch = 0;
  p.require(ep::begin_wait(x, w.completed, shared, epoch), "nobody has given up before the first wait");
  const ep::arrival_set set{
      .pairs = second + 1, .num_ranks = 2, .capacity = 8, .epoch = epoch, .where = arrival_sites::dispatch()};
  const bool collected = ep::collect_arrivals<Arrival>(x, set, shared, word, any, note);
  for (int i = 0; collected && i < 2; ++i)
    p.require(x.read(w.rows + i) == sent[static_cast<std::size_t>(i)], "what is collected is whole");
  w.collected[static_cast<std::size_t>(x.warp())] = collected;
  x.next_kernel();
  p.require(w.collected[0] == w.collected[1], "all warps know whether some wait gave up");
}

template <class Arrival>
check::result check_collection(check::bounds limits) {
  limits.may_time_out = [](const wait_site&) { return true; };
  return check::explore(limits, [](check::program& p) {
    auto w = std::make_shared<collecting_world>();
    w->words = p.allocate<std::uint64_t>(2, "word");
    w->rows = p.allocate<std::int32_t>(2, "rows");
    w->completed = p.allocate<std::uint32_t>(1, "rounds completed");
    for (int i = 0; i < 2; ++i) w->words[i] = Arrival::idle;
    p.shared_memory(ep::waiting_plan{}.bytes);
    for (int warp = 0; warp < 2; ++warp)
      p.spawn(0, 0, warp, [w, &p](check::context& x) { collect<Arrival>(x, p, *w); });
    p.spawn(1, 0, 0, [w](check::context& x) {
      for (int i = 0; i < 2; ++i) publish<Arrival>(x, w->words + i, 1, sent[static_cast<std::size_t>(i)]);
    });
  });
}

}  // namespace

exploration collection_holds(const std::string& name, arrival_policy policy) {
  return policy == arrival_policy::epoch
             ? exploration{name + ", epoch", check_collection<epoch_arrival>}
             : exploration{name + ", sentinel", check_collection<sentinel_arrival>};
}

}  // namespace baton::checks
