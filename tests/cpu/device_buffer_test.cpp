#include "baton/device_buffer.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <new>
#include <numeric>

#include "baton/expert_parallel.hpp"
#include "runtime/world_state.hpp"
#include "sim/machine.hpp"
#include "tests/cpu/says.hpp"

namespace baton {
namespace {

using test::message_of;
using test::says;

static_assert(!std::is_copy_constructible_v<device_buffer<float>> &&
              !std::is_copy_assignable_v<device_buffer<float>>);
static_assert(std::is_nothrow_move_constructible_v<device_buffer<float>>);

constexpr std::size_t a_pebibyte = std::size_t{1} << 50;

TEST(device_buffer, is_zeroed_and_aligned_whatever_its_size) {
  const world w = world::create({});
  for (const std::size_t bytes : {0u, 1u, 255u, 256u, 100'003u}) {
    const device_buffer<std::byte> b{w, bytes};
    ASSERT_NE(b.data(), nullptr);
    EXPECT_EQ(b.size(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b.data()) % 256, 0u);
    EXPECT_EQ(b.to_host(), std::vector<std::byte>(bytes));
  }
}

TEST(device_buffer, too_much_says_needed_free_and_which_knob) {
  const world w = world::create({});
  try {
    const device_buffer<float> b{w, a_pebibyte / 4, {"received tokens", "lower num_max_tokens_per_rank"}};
    FAIL() << "nothing was thrown";
  } catch (const out_of_memory& e) {
    EXPECT_EQ(e.needed, a_pebibyte);
    EXPECT_GT(e.free, 0u);
    EXPECT_LT(e.free, a_pebibyte);
    EXPECT_TRUE(says(e.what(), "received tokens")) << e.what();
    EXPECT_TRUE(says(e.what(), "lower num_max_tokens_per_rank")) << e.what();
  }
}

TEST(device_buffer, a_count_whose_bytes_are_no_number_is_too_much_too) {
  const world w = world::create({});
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  for (const std::size_t count : {most, most / 4 + 1, most / 4 + 65})
    EXPECT_THROW((device_buffer<float>{w, count}), out_of_memory) << count;
  EXPECT_THROW((device_buffer<std::byte>{w, most}), out_of_memory);
}

TEST(device_buffer, of_values_holds_them_at_once_whatever_its_streams_wait_for) {
  const auto worlds = world::local(2, device_kind::cpu);
  auto ranks = expert_parallel::create_all(
      worlds, {.num_experts = 2, .top_k = 1, .hidden = 64, .num_max_tokens_per_rank = 1});
  ranks[0].dispatch_async(nullptr, nullptr, 0);
  ranks[0].dispatch_wait();  // for rank 1, which has not begun
  std::vector<int> values(100);
  std::iota(values.begin(), values.end(), 1);
  const device_buffer<int> b{worlds[0], values};
  values.assign(100, 0);
  EXPECT_EQ(b.span().front(), 1);
  EXPECT_EQ(b.span().back(), 100);
}

TEST(device_buffer, copies_and_fills_in_the_order_of_the_stream_and_not_before_it_runs) {
  const world w = world::create({});
  device_buffer<unsigned char> a{w, 64}, b{w, 64};
  std::vector<unsigned char> in(64), out(64, 0xee);
  std::iota(in.begin(), in.end(), std::uint8_t{1});
  a.copy_from_async(in);
  copy_async(w, b.data(), a.data(), 64);
  a.fill_async(0x5a);
  fill_async(w, b.data(), 0xff, 4);
  b.copy_to_async(out);
  EXPECT_EQ(out[0], 0xee);
  w.synchronize();
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(out[i], i < 4 ? 0xff : in[i]) << i;
  EXPECT_EQ(a.span()[0], 0x5a);
}

TEST(device_buffer, copies_fewer_values_at_its_beginning_and_refuses_more_than_it_has) {
  const world w = world::create({});
  device_buffer<int> b{w, 3};
  const std::vector<int> two{7, 8};
  b.copy_from_async(two);
  EXPECT_EQ(b.to_host(), (std::vector<int>{7, 8, 0}));
  std::vector<int> four(4);
  EXPECT_TRUE(says(message_of<invalid_argument>([&] { b.copy_from_async(four); }),
                   "values: 4 of them, expected at most the 3"));
  EXPECT_TRUE(says(message_of<invalid_argument>([&] { b.copy_to_async(four); }),
                   "values: 4 of them, expected at most the 3"));
  EXPECT_EQ(b.to_host(), (std::vector<int>{7, 8, 0}));
}

TEST(device_buffer, that_was_moved_from_or_has_no_memory_says_so) {
  const world w = world::create({});
  device_buffer<int> taken{w, 5}, none;
  const device_buffer<int> taker = std::move(taken);
  EXPECT_EQ(taker.size(), 5u);
  std::vector<int> values;
  for (device_buffer<int>* b : {&taken, &none}) {
    EXPECT_EQ(b->size(), 0u);
    EXPECT_EQ(b->size_bytes(), 0u);
    for (const std::function<void()>& use : std::vector<std::function<void()>>{
             [&] { b->data(); }, [&] { b->span(); }, [&] { b->to_host(); }, [&] { b->fill_async(0); },
             [&] { b->copy_from_async(values); }, [&] { b->copy_to_async(values); }})
      EXPECT_TRUE(says(message_of<invalid_argument>(use), "device_buffer: moved from"));
  }
  none = {w, 2};
  EXPECT_EQ(none.to_host(), (std::vector<int>{0, 0}));
}

TEST(device_buffer, keeps_its_world) {
  std::vector<world> worlds = world::local(2, device_kind::cpu);
  device_buffer<int> b{worlds[1], 1};
  worlds.clear();
  b.fill_async(1);
  EXPECT_EQ(b.to_host(), std::vector<int>{0x01010101});
}

TEST(to_host, does_not_leave_a_copy_behind_when_earlier_work_throws) {
  const world w = world::create({});
  const device_buffer<int> b{w, 1000};
  w.state().machine->host(0, [] { throw std::bad_alloc{}; });
  EXPECT_THROW(b.to_host(), std::bad_alloc);
  EXPECT_NO_THROW(w.synchronize()) << "would write into memory that is gone";
  EXPECT_EQ(b.to_host().size(), 1000u);
}

TEST(copy_async, zero_bytes_may_come_with_null_pointers) {
  const world w = world::create({});
  copy_async(w, nullptr, nullptr, 0);
  fill_async(w, nullptr, 0, 0);
  w.synchronize();
}

TEST(copy_async, of_some_bytes_from_or_to_nowhere_is_refused_before_it_is_queued) {
  const world w = world::create({});
  int value = 0;
  EXPECT_TRUE(says(message_of<invalid_argument>([&] { copy_async(w, nullptr, &value, 4); }),
                   "to: null, expected 4 bytes"));
  EXPECT_TRUE(says(message_of<invalid_argument>([&] { copy_async(w, &value, nullptr, 4); }),
                   "from: null, expected 4 bytes"));
  EXPECT_TRUE(says(message_of<invalid_argument>([&] { fill_async(w, nullptr, 1, 4); }),
                   "at: null, expected 4 bytes"));
  w.synchronize();
}

}  // namespace
}  // namespace baton
