// Verbs of the warp that lanes call one by one: the CPU machine refuses them, as a GPU would wait for lanes that never come.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "baton/error.hpp"
#include "sim/context.hpp"

namespace baton::sim::one_lane {
namespace {

constexpr wait_site at_test{.where = "test"};
constexpr int shared_bytes = 4096;

struct named_verb {
  const char* name;
  std::function<void(context&)> call;
};

mbarrier* barrier(context& x) {
  return reinterpret_cast<mbarrier*>(x.shared());
}
std::byte* lines(context& x) {
  return x.shared() + 1024;
}

std::vector<named_verb> verbs_of_the_warp() {
  using word = std::uint32_t;
  return {
      {"broadcast", [](context& x) { x.broadcast(context::lanes<int>{}, 0); }},
      {"shuffle", [](context& x) { x.shuffle(context::lanes<int>{}, context::lanes<int>{}); }},
      {"shuffle_xor", [](context& x) { x.shuffle_xor(context::lanes<int>{}, 1); }},
      {"shuffle_up", [](context& x) { x.shuffle_up(context::lanes<int>{}, 1); }},
      {"ballot", [](context& x) { x.ballot(context::lanes<bool>{}); }},
      {"equal_lanes", [](context& x) { x.equal_lanes(context::lanes<int>{}); }},
      {"sync_warp", [](context& x) { x.sync_warp(); }},
      {"sync_block", [](context& x) { x.sync_block(); }},
      {"wait",
       [](context& x) {
         context::lanes<word> seen{};
         x.wait<order::acquire, scope::system>(
             context::lanes<word*>{}, [](int, word) { return true; }, at_test, seen);
       }},
      {"store_lines", [](context& x) { x.store_lines(lines(x), context::lanes<vec16>{}); }},
      {"load_lines", [](context& x) { x.load_lines(lines(x)); }},
      {"wait_lines",
       [](context& x) {
         context::lanes<vec16> seen[1];
         x.wait_lines(
             line_places<1>{{lines(x)}}, [](int, const vec16(&)[1]) { return true; }, at_test, seen);
       }},
      {"bulk_wait", [](context& x) { x.bulk_wait(); }},
      {"bulk_wait_read", [](context& x) { x.bulk_wait_read(); }},
      {"mbarrier_wait", [](context& x) { x.mbarrier_wait<scope::block>(barrier(x), parity::odd, at_test); }},
      {"mbarrier_is_over", [](context& x) { x.mbarrier_is_over<scope::block>(barrier(x), parity::odd); }},
      {"mbarrier_wait_or_note",
       [](context& x) {
         auto* late = reinterpret_cast<word*>(lines(x));
         x.mbarrier_wait_or_note<scope::block>(barrier(x), parity::odd, 1, at_test, late);
       }},
      {"report_late", [](context& x) { x.report_late(at_test); }},
      {"elect", [](context& x) { x.elect([] {}); }},
      {"from_one", [](context& x) { x.from_one([] { return 0; }); }},
      {"each_lane", [](context& x) { x.each_lane([](int) {}); }},
      {"each", [](context& x) { x.each(1, [](int) {}); }},
      {"block_each", [](context& x) { x.block_each(1, [](int) {}); }},
      {"commit_copies", [](context& x) { x.commit_copies(); }},
      {"await_copies", [](context& x) { x.await_copies<0>(); }},
      {"sync_cluster", [](context& x) { x.sync_cluster(); }},
      {"meet_cluster", [](context& x) { x.meet_cluster(); }},
      {"sync_groups", [](context& x) { x.sync_groups(1, 1); }},
  };
}

using way = void (*)(context&, const std::function<void()>&);
struct named_way {
  const char* name;
  way go;
};
const named_way ways[] = {
    {"elect", [](context& x, const std::function<void()>& f) { x.elect(f); }},
    {"each_lane", [](context& x, const std::function<void()>& f) { x.each_lane([&](int) { f(); }); }},
    {"each", [](context& x, const std::function<void()>& f) { x.each(1, [&](int) { f(); }); }},
    {"block_each",
     [](context& x, const std::function<void()>& f) {
       x.block_each(4 * warp_lanes, [&](int i) {
         if (i % warp_lanes == 0) f();
       });
     }},
    {"from_one",
     [](context& x, const std::function<void()>& f) {
       x.from_one([&] {
         f();
         return 0;
       });
     }},
};

/// What the machine says of a kernel of a group of four warps that inits a barrier and calls `body`; empty: nothing.
std::string said_of(const std::function<void(context&)>& body) {
  machine m{1, {}};
  m.launch(0, {1, 4, shared_bytes}, [&](context& x) {
    if (x.warp() == 0) x.elect([&] { x.mbarrier_init(barrier(x), 1); });
    x.sync_block();
    body(x);
  });
  try {
    m.run(0);
  } catch (const error& e) {
    return e.what();
  }
  return {};
}

TEST(sim_lanes, a_verb_of_the_warp_that_one_lane_calls_is_refused_by_its_name) {
  for (const named_verb& verb : verbs_of_the_warp())
    for (const named_way& one : ways) {
      const std::string said = said_of([&](context& x) { one.go(x, [&] { verb.call(x); }); });
      EXPECT_EQ(said.substr(0, said.find(':')), verb.name) << "in " << one.name << ": " << said;
    }
}

TEST(sim_lanes, the_same_verbs_are_served_when_the_whole_warp_calls_them) {
  for (const named_verb& verb : verbs_of_the_warp())
    EXPECT_EQ(said_of([&](context& x) {
                x.each_lane([](int) {});
                verb.call(x);
              }),
              "")
        << verb.name;
}

TEST(sim_lanes, the_warp_is_whole_again_behind_a_lane_that_threw) {
  EXPECT_EQ(said_of([](context& x) {
              try {
                x.each_lane([](int) { throw error{"a lane's own"}; });
              } catch (const error&) {
              }
              x.sync_warp();
            }),
            "");
}

TEST(sim_lanes, a_block_alone_is_refused_stores_that_are_counted) {
  const std::string said = said_of([](context& x) {
    x.elect([&] { x.store_counted(x.reach(0), reinterpret_cast<std::uint32_t*>(lines(x)), 1u, barrier(x)); });
  });
  EXPECT_EQ(said.substr(0, said.find(';')), "store_counted: in a block alone");
}

}  // namespace
}  // namespace baton::sim::one_lane
