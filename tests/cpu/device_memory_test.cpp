#include "runtime/device_memory.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "baton/error.hpp"
#include "runtime/host_memory.hpp"
#include "runtime/world_state.hpp"
#include "sim/machine.hpp"

namespace baton {
namespace {

constexpr std::size_t too_much = std::size_t{1} << 50;

TEST(device_buffer, is_zeroed_and_aligned_whatever_its_size) {
  const world w = world::create({});
  for (const std::size_t bytes : {0u, 1u, 255u, 256u, 100'003u}) {
    const device_buffer b{w, bytes, "test", "lower nothing"};
    ASSERT_NE(b.data(), nullptr);
    EXPECT_EQ(b.bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b.data()) % 256, 0u);
    for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(b.data()[i], std::byte{0}) << "byte " << i;
  }
}

TEST(device_buffer, too_much_says_needed_free_and_which_knob) {
  const world w = world::create({});
  try {
    const device_buffer b{w, too_much, "received tokens", "lower num_max_tokens_per_rank"};
    FAIL() << "nothing was thrown";
  } catch (const out_of_memory& e) {
    EXPECT_EQ(e.needed, too_much);
    EXPECT_GT(e.free, 0u);
    EXPECT_LT(e.free, too_much);
    const std::string text = e.what();
    EXPECT_NE(text.find("received tokens"), std::string::npos) << text;
    EXPECT_NE(text.find("lower num_max_tokens_per_rank"), std::string::npos) << text;
  }
}

TEST(copy_async, happens_in_the_order_of_the_stream_and_not_before_it_runs) {
  const world w = world::create({});
  const device_buffer a{w, 64, "test", ""}, b{w, 64, "test", ""};
  std::vector<unsigned char> in(64), out(64, 0xee);
  std::iota(in.begin(), in.end(), std::uint8_t{1});
  copy_async(w, a.data(), in.data(), 64, {});
  copy_async(w, b.data(), a.data(), 64, {});
  fill_async(w, a.data(), 0x5a, 64, {});
  fill_async(w, b.data(), 0xff, 4, {});
  copy_async(w, out.data(), b.data(), 64, {});
  EXPECT_EQ(out[0], 0xee);
  w.synchronize();
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(out[i], i < 4 ? 0xff : in[i]) << i;
  EXPECT_EQ(a.data()[0], std::byte{0x5a});
}

TEST(copy_async, zero_bytes_may_come_with_null_pointers) {
  const world w = world::create({});
  copy_async(w, nullptr, nullptr, 0, {});
  fill_async(w, nullptr, 0, 0, {});
  w.synchronize();
}

TEST(host_memory, what_is_free_lies_between_nothing_and_all) {
  EXPECT_GT(host_bytes_free(), 0u);
  EXPECT_LE(host_bytes_free(), host_bytes_total());
}

TEST(sms_of, a_cpu_rank_has_two) {
  EXPECT_EQ(sms_of(world::create({})), 2);
}

}  // namespace
}  // namespace baton
