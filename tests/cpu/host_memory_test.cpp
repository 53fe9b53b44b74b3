#include "runtime/host_memory.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>

#include "baton/error.hpp"
#include "runtime/cgroup_memory.hpp"
#include "runtime/memory_credit.hpp"
#include "runtime/world_state.hpp"
#include "tests/cpu/temporary_folder.hpp"
#include "tests/support/forked_ranks.hpp"

namespace baton {
namespace {

TEST(host_memory, what_is_free_lies_between_nothing_and_all) {
  EXPECT_GT(host_bytes_free(), 0u);
  EXPECT_LE(host_bytes_free(), host_bytes_total());
}

TEST(host_memory, what_is_free_is_no_more_than_the_limit_of_this_process_leaves) {
  const auto results = test::in_processes({0}, [](int) {
    std::size_t pages = 0;
    std::ifstream{"/proc/self/statm"} >> pages;
    const rlim_t left = 64 << 20, most = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + left;
    const rlim_t given_back =
        1 << 20;  // by malloc, at most, before what is free is looked at: 128 KiB at a time
    const rlimit limit{most, most};
    ::setrlimit(RLIMIT_AS, &limit);
    try {
      require_host_memory(left + given_back + 1, {"a test", "nothing"});
    } catch (const out_of_memory& e) {
      return e.free <= left + given_back;
    }
    return false;
  });
  EXPECT_EQ(results[0].exit_code, 0) << results[0].thrown;
}

TEST(memory_credit, a_look_is_good_for_little_memory_and_a_short_time) {
  const memory_credit::time now = std::chrono::steady_clock::now(),
                            soon = now + memory_credit::good_for - std::chrono::nanoseconds{1};
  memory_credit credit;
  EXPECT_FALSE(credit.covers(0, now)) << "nobody has looked";
  credit.found(1000 * memory_credit::part, now);
  EXPECT_TRUE(credit.covers(600, now));
  EXPECT_FALSE(credit.covers(401, soon));
  EXPECT_TRUE(credit.covers(400, soon));
  EXPECT_FALSE(credit.covers(1, soon));
  credit.found(1000 * memory_credit::part, now);
  EXPECT_FALSE(credit.covers(1, now + memory_credit::good_for));
}

TEST(memory_credit, much_that_is_free_is_no_credit_for_much) {
  const memory_credit::time now = std::chrono::steady_clock::now();
  memory_credit credit;
  credit.found(std::size_t{1} << 50, now);
  EXPECT_FALSE(credit.covers(memory_credit::most + 1, now));
  EXPECT_TRUE(credit.covers(memory_credit::most, now));
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
