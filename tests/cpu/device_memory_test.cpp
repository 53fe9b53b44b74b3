#include "runtime/device_memory.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <vector>

#include "baton/error.hpp"
#include "runtime/cgroup_memory.hpp"
#include "runtime/host_memory.hpp"
#include "runtime/world_state.hpp"
#include "sim/machine.hpp"
#include "tests/cpu/temporary_folder.hpp"

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

/// A machine's files, as far as limits of memory are concerned.
class fake_machine {
 public:
  void say(const std::string& file, const std::string& text) const {
    const std::filesystem::path at = folder_ / file;
    std::filesystem::create_directories(at.parent_path());
    std::ofstream{at} << text;
  }
  memory_allowance allowance() const { return memory_allowance_of_cgroups(folder_ / ""); }

 private:
  test::temporary_folder folder_;
};

TEST(cgroup_memory, the_tightest_of_nested_groups_counts) {
  const fake_machine m;
  m.say("proc/self/cgroup", "0::/job/step\n");
  m.say("sys/fs/cgroup/job/step/memory.max", "max\n");
  m.say("sys/fs/cgroup/job/step/memory.current", "100\n");
  m.say("sys/fs/cgroup/job/memory.max", "1000\n");
  m.say("sys/fs/cgroup/job/memory.current", "700\n");
  m.say("sys/fs/cgroup/job/memory.stat", "anon 500\ninactive_file 200\n");
  EXPECT_EQ(m.allowance().total, 1000u);
  EXPECT_EQ(m.allowance().free, 500u);
  m.say("sys/fs/cgroup/job/step/memory.max", "300\n");
  EXPECT_EQ(m.allowance().total, 300u);
  EXPECT_EQ(m.allowance().free, 200u);
}

TEST(cgroup_memory, version_1_counts_too_also_where_a_container_sees_only_its_own_group) {
  const fake_machine m;
  m.say("proc/self/cgroup",
        "5:cpu,cpuacct:/docker/1\n4:memory:/docker/1\n1:name=systemd:/docker/1\n0::/docker/1\n");
  m.say("sys/fs/cgroup/memory/memory.limit_in_bytes", "5000\n");
  m.say("sys/fs/cgroup/memory/memory.usage_in_bytes", "4000\n");
  m.say("sys/fs/cgroup/memory/memory.stat", "inactive_file 9\ntotal_inactive_file 1000\n");
  EXPECT_EQ(m.allowance().total, 5000u);
  EXPECT_EQ(m.allowance().free, 2000u);
}

TEST(cgroup_memory, no_group_or_one_that_uses_more_than_it_may_leaves_all_or_nothing) {
  const fake_machine m;
  EXPECT_EQ(m.allowance().free, memory_allowance::unlimited);
  m.say("proc/self/cgroup", "nonsense\n0:\n0::/../outside\n");
  m.say("sys/fs/cgroup/memory.max", "1000\n");
  m.say("sys/fs/cgroup/memory.current", "1200\n");
  EXPECT_EQ(m.allowance().free, 0u);
}

TEST(sms_of, a_cpu_rank_has_two) {
  EXPECT_EQ(sms_of(world::create({})), 2);
}

}  // namespace
}  // namespace baton
