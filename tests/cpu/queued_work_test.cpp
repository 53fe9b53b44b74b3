// What is queued on the CPU: streams of a rank side by side, memory that outlives its owner, and what a failure costs.
#include <gtest/gtest.h>

#include <new>
#include <optional>
#include <stdexcept>

#include "baton/device_buffer.hpp"
#include "baton/error.hpp"
#include "baton/expert_parallel.hpp"
#include "runtime/world_state.hpp"
#include "sim/context.hpp"
#include "sim/machine.hpp"
#include "tests/cpu/says.hpp"

namespace baton {
namespace {

using test::message_of;
using test::says;

constexpr ep_config small{.num_experts = 4,
                          .top_k = 2,
                          .hidden = 64,
                          .num_max_tokens_per_rank = 3,
                          .layout = ep_layout::per_expert};

std::vector<bfloat16> tokens_of_one_rank() {
  return std::vector<bfloat16>(3 * 64, bfloat16{1.0f});
}

/// One rank's part of a round, on memory that outlives the queue.
struct round_memory {
  std::vector<bfloat16> tokens = tokens_of_one_rank();
  std::vector<std::int32_t> topk_idx{0, 1, 2, 3, 1, 2};
  std::vector<float> out = std::vector<float>(3 * 64, -1.0f);
};

TEST(queued_work, runs_after_its_communicator_is_gone) {
  const auto worlds = world::local(2, device_kind::cpu);
  std::vector<round_memory> memory(2);
  {
    auto ranks = expert_parallel::create_all(worlds, small);
    std::vector<received_tokens> received(2);
    const auto each = [](auto f) { f(0u), f(1u); };
    each([&](unsigned r) { ranks[r].dispatch_async(memory[r].tokens.data(), memory[r].topk_idx.data(), 3); });
    each([&](unsigned r) { received[r] = ranks[r].dispatch_wait(); });
    each([&](unsigned r) { ranks[r].combine_async(static_cast<const bfloat16*>(received[r].tokens)); });
    each([&](unsigned r) { ranks[r].combine_wait(nullptr, memory[r].out.data()); });
  }
  for (const world& w : worlds) w.synchronize();
  for (const round_memory& m : memory) EXPECT_EQ(m.out, std::vector<float>(3 * 64, 2.0f));
}

TEST(queued_work, runs_after_a_world_and_a_buffer_are_gone) {
  auto worlds = world::local(2, device_kind::cpu);
  std::vector<std::byte> seen(8);
  {
    device_buffer<std::byte> buffer{worlds[0], 8};
    buffer.fill_async(7);
    buffer.copy_to_async(seen);
  }
  worlds.erase(worlds.begin());
  worlds[0].state().machine->run(0);
  EXPECT_EQ(seen, std::vector<std::byte>(8, std::byte{7}));
}

TEST(queued_work, of_a_communicator_that_an_exception_takes_away_is_dropped) {
  const auto worlds = world::local(1, device_kind::cpu);
  auto other = expert_parallel::create(worlds[0], small);
  try {
    auto ep = expert_parallel::create(worlds[0], small);
    round_memory memory;
    ep.dispatch_async(memory.tokens.data(), memory.topk_idx.data(), 3);
    throw std::runtime_error{"the caller's own"};
  } catch (const std::runtime_error&) {
  }
  worlds[0].synchronize();  // would read the tokens
  EXPECT_TRUE(says(message_of<invalid_argument>([&] { other.dispatch_async(nullptr, nullptr, 0); }),
                   "rank 0 was lost"));
  auto anew = expert_parallel::create(worlds[0], small);
  EXPECT_NO_THROW(anew.dispatch_async(nullptr, nullptr, 0));
}

TEST(queued_work, is_dropped_when_some_of_it_throws_and_every_rank_is_told_once) {
  const auto worlds = world::local(3, device_kind::cpu);
  sim::machine& machine = *worlds[0].state().machine;
  std::optional<int> gone = 1;
  machine.host(0, [] { throw std::bad_alloc{}; });
  machine.host(0, [&] { *gone = 2; });
  machine.launch(
      1, {}, [&](sim::context&) { *gone = 3; }, &gone);
  machine.host(1, [] { throw std::bad_alloc{}; });
  EXPECT_THROW(worlds[0].synchronize(), std::bad_alloc);
  gone.reset();
  EXPECT_NO_THROW(worlds[0].synchronize());
  EXPECT_THROW(worlds[1].synchronize(), std::bad_alloc) << "its work is lost";
  EXPECT_NO_THROW(worlds[1].synchronize({&gone}));
  EXPECT_NO_THROW(worlds[2].synchronize()) << "it had none";
  EXPECT_FALSE(gone.has_value());
}

TEST(queued_work, of_another_rank_that_throws_is_told_to_that_rank_even_if_nothing_is_left_of_it) {
  const auto worlds = world::local(2, device_kind::cpu);
  sim::machine& machine = *worlds[0].state().machine;
  machine.host(0, [] {});
  machine.host(1, [] { throw std::bad_alloc{}; });
  EXPECT_NO_THROW(worlds[0].synchronize()) << "it was done before";
  EXPECT_THROW(worlds[1].synchronize(), std::bad_alloc);
  EXPECT_NO_THROW(worlds[1].synchronize());
}

TEST(queued_work, communicators_are_lost_with_it) {
  const auto worlds = world::local(1, device_kind::cpu);
  auto ep = expert_parallel::create(worlds[0], small);
  ep.dispatch_async(nullptr, nullptr, 0);
  worlds[0].state().machine->host(0, [] { throw std::bad_alloc{}; });
  ep.dispatch_wait();
  EXPECT_THROW(worlds[0].synchronize(), std::bad_alloc);
  EXPECT_TRUE(says(message_of<invalid_argument>([&] { ep.combine_async(nullptr); }), "rank 0 was lost"));
}

TEST(queued_work, of_more_warps_than_the_cpu_machine_has_stacks_for_is_refused) {
  ep_config large = small;
  large.num_sms = large.num_threads = 1024;
  const auto worlds = world::local(1, device_kind::cpu);
  auto ranks = expert_parallel::create_all(worlds, large);
  ranks[0].dispatch_async(nullptr, nullptr, 0);
  const std::string text = message_of<unsupported>([&] { worlds[0].synchronize(); });
  EXPECT_TRUE(says(text, "32768 warps", "at most 16384", "num_sms or num_threads")) << text;
}

TEST(streams, of_one_rank_run_side_by_side) {
  const auto worlds = world::local(2, device_kind::cpu);
  auto first = expert_parallel::create_all(worlds, small),
       second = expert_parallel::create_all(worlds, small);
  int names[2];
  const stream_ref a{&names[0]}, b{&names[1]};
  first[0].dispatch_async(nullptr, nullptr, 0, a);
  first[0].dispatch_wait(a);
  second[0].dispatch_async(nullptr, nullptr, 0, b);
  second[1].dispatch_async(nullptr, nullptr, 0, b);
  second[1].dispatch_wait(b);
  first[1].dispatch_async(nullptr, nullptr, 0,
                          a);  // behind a wait for what rank 0 has behind a wait for this
  for (const world& w : worlds)
    for (const stream_ref s : {a, b}) EXPECT_NO_THROW(w.synchronize(s));
}

/// Copies what a dispatch on another stream receives, with or without a word to say that the copy comes later.
std::int32_t rows_copied(bool chained) {
  const auto worlds = world::local(1, device_kind::cpu);
  auto ep = expert_parallel::create(worlds[0], small);
  round_memory memory;
  int names[2];
  const stream_ref compute{&names[0]}, copies{&names[1]};
  ep.dispatch_async(memory.tokens.data(), memory.topk_idx.data(), 3, compute);
  const received_tokens received = ep.dispatch_wait(compute);
  std::int32_t rows = -1;
  if (chained) worlds[0].chain(compute, copies);
  copy_async(worlds[0], &rows, received.row_offsets + 4, sizeof rows, copies);
  worlds[0].synchronize(copies);
  worlds[0].synchronize(compute);
  return rows;
}

TEST(streams, a_dependency_that_nobody_stated_shows) {
  EXPECT_EQ(rows_copied(true), 6);
  EXPECT_EQ(rows_copied(false), 0) << "the copy did not wait for the kernel it reads from";
}

TEST(streams, are_waited_for_one_by_one) {
  const auto worlds = world::local(1, device_kind::cpu);
  sim::machine& machine = *worlds[0].state().machine;
  int name = 0;
  machine.launch(
      0, {}, [](sim::context&) { throw std::runtime_error{"not of this stream"}; }, &name);
  EXPECT_NO_THROW(worlds[0].synchronize());
  EXPECT_THROW(worlds[0].synchronize({&name}), std::runtime_error);
}

TEST(a_world, that_was_moved_from_says_so) {
  auto worlds = world::local(1, device_kind::cpu);
  const world taken = std::move(worlds[0]);
  EXPECT_EQ(taken.size(), 1);
  EXPECT_TRUE(says(message_of<invalid_argument>([&] { worlds[0].rank(); }), "world: moved from"));
  EXPECT_TRUE(says(message_of<invalid_argument>([&] { worlds[0].synchronize(); }), "world: moved from"));
  EXPECT_TRUE(says(message_of<invalid_argument>([&] { expert_parallel::create(worlds[0], small); }),
                   "world: moved from"));
}

}  // namespace
}  // namespace baton
