#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "baton/error.hpp"
#include "baton/world.hpp"
#include "bootstrap/group.hpp"
#include "bootstrap/thread_rendezvous.hpp"
#include "exec/build_id.hpp"
#include "runtime/stuck_report.hpp"
#include "runtime/world_state.hpp"
#include "sim/machine.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/forked_ranks.hpp"

namespace baton {
namespace {

using std::chrono::milliseconds;
using test::says;

template <class Error>
std::string text_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing was thrown";
}

/// Calls act(rank) in a thread each and returns what each threw, as text; "" for nothing.
std::vector<std::string> in_threads(int size, const std::function<void(int)>& act) {
  std::vector<std::string> texts(static_cast<std::size_t>(size));
  std::vector<std::jthread> threads;
  for (int r = 0; r < size; ++r)
    threads.emplace_back([&, r] {
      try {
        act(r);
      } catch (const std::exception& e) {
        texts[static_cast<std::size_t>(r)] = e.what();
      }
    });
  threads.clear();
  return texts;
}

world_config config_of(const std::shared_ptr<bootstrap::thread_rendezvous>& meeting, int rank, int size) {
  world_config c;
  c.rank = rank;
  c.size = size;
  c.all_gather = bootstrap::all_gather_of(meeting, rank);
  return c;
}

TEST(world, one_rank_needs_no_callback) {
  const world w = world::create({});
  EXPECT_EQ(w.rank(), 0);
  EXPECT_EQ(w.size(), 1);
  EXPECT_EQ(w.device(), device_kind::cpu);
  int mine = 7, all = 0;
  w.all_gather(&mine, &all, sizeof mine);
  EXPECT_EQ(all, 7);
}

TEST(world, threads_with_a_callback_find_each_other_in_one_process) {
  constexpr int size = 3;
  const auto meeting = std::make_shared<bootstrap::thread_rendezvous>(size, milliseconds{10'000});
  const auto texts = in_threads(size, [&](int rank) {
    const world w = world::create(config_of(meeting, rank, size));
    EXPECT_TRUE(w.state().in_process);
    EXPECT_FALSE(w.state().machine->settings().virtual_clock);
    for (int round = 0; round < 100; ++round) {
      const int mine = 1000 * round + rank;
      std::vector<int> all(size);
      w.all_gather(&mine, all.data(), sizeof mine);
      for (int r = 0; r < size; ++r) EXPECT_EQ(all[static_cast<std::size_t>(r)], 1000 * round + r);
    }
  });
  for (const std::string& t : texts) EXPECT_EQ(t, "");
}

TEST(world, local_ranks_share_one_machine_that_waits_in_real_time) {
  const auto worlds = world::local(4, device_kind::cpu);
  ASSERT_EQ(worlds.size(), 4u);
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(worlds[static_cast<std::size_t>(r)].rank(), r);
    EXPECT_EQ(worlds[static_cast<std::size_t>(r)].size(), 4);
    EXPECT_EQ(worlds[static_cast<std::size_t>(r)].state().machine, worlds[0].state().machine);
  }
  // A rank driven by another thread may enqueue what a wait needs only later.
  EXPECT_FALSE(worlds[0].state().machine->settings().virtual_clock);
}

TEST(world, arguments_outside_their_limits_are_named_with_their_values) {
  world_config c;
  c.size = 0;
  EXPECT_TRUE(says(text_of<invalid_argument>([&] { world::create(c); }), "size: 0"));
  EXPECT_TRUE(says(text_of<invalid_argument>([] { world::local(-2, device_kind::cpu); }), "size: -2"));
  c.size = 2;
  c.rank = 2;
  c.all_gather = [](const void*, void*, std::size_t) {};
  EXPECT_TRUE(
      says(text_of<invalid_argument>([&] { world::create(c); }), "rank: 2, expected 0 to size - 1 = 1"));
  c.rank = 0;
  c.all_gather = nullptr;
  EXPECT_TRUE(
      says(text_of<invalid_argument>([&] { world::create(c); }), "all_gather is empty, but size is 2"));
  c.size = 1;
  c.deadline = milliseconds{-1};
  EXPECT_TRUE(says(text_of<invalid_argument>([&] { world::create(c); }), "deadline: -1 ms"));
  EXPECT_TRUE(says(text_of<invalid_argument>([] { world::local(1, device_kind{5}); }),
                   "device: 5, expected device_kind::cpu or device_kind::cuda"));
}

TEST(world, what_a_rank_reports_is_no_longer_than_it_may_be_whatever_its_bytes_are) {
  int calls = 0;
  world_config c;
  c.size = 2;
  c.all_gather = [&](const void* mine, void* all, std::size_t bytes) {
    auto* const other = static_cast<char*>(all) + bytes;
    std::memcpy(all, mine, bytes);
    std::memcpy(other, mine, bytes);
    const std::int32_t rank = 1;
    if (++calls == 1)
      std::memcpy(other, &rank, sizeof rank);
    else
      std::memset(other, 'x', bytes);  // a report without an end
  };
  const std::string text = text_of<transport_error>([&] { world::create(c); });
  EXPECT_TRUE(says(text, "rank 1: xxx")) << text;
  EXPECT_LT(text.size(), 600u);
}

TEST(world, ranks_that_expect_different_sizes_all_hear_about_it) {
  const auto meeting = std::make_shared<bootstrap::thread_rendezvous>(2, milliseconds{10'000});
  const auto texts = in_threads(2, [&](int rank) {
    world_config c = config_of(meeting, rank, 2 + rank);
    if (rank == 1)  // a buffer for three, of which the callback fills two
      c.all_gather = [gather = c.all_gather](const void* mine, void* all, std::size_t n) {
        gather(mine, all, n);
      };
    world::create(c);
  });
  for (const std::string& t : texts) EXPECT_TRUE(says(t, "size is 2 on rank 0 and 3 on rank 1")) << t;
}

TEST(world, ranks_whose_waits_end_at_other_times_all_hear_about_it) {
  const auto meeting = std::make_shared<bootstrap::thread_rendezvous>(2, milliseconds{10'000});
  const auto texts = in_threads(2, [&](int rank) {
    world_config c = config_of(meeting, rank, 2);
    c.deadline = milliseconds{rank == 0 ? 30'000 : 2'000};
    world::create(c);
  });
  for (const std::string& t : texts)
    EXPECT_TRUE(says(t, "waits end after 30000 ms on rank 0 and 2000 ms on rank 1", "BATON_DEADLINE_MS"))
        << t;
}

/// Rank 1 tells another build wherever rank 0's would be in what it tells.
TEST(world, ranks_of_different_builds_all_hear_about_it) {
  const auto meeting = std::make_shared<bootstrap::thread_rendezvous>(2, milliseconds{10'000});
  const auto texts = in_threads(2, [&](int rank) {
    world_config c = config_of(meeting, rank, 2);
    if (rank == 1)
      c.all_gather = [gather = c.all_gather](const void* mine, void* all, std::size_t n) {
        std::vector<std::byte> told(n);
        std::memcpy(told.data(), mine, n);
        for (std::size_t i = 0; i + sizeof(std::uint64_t) <= n; i += sizeof(std::uint64_t))
          if (const std::uint64_t own = build_id(), other = own + 1;
              std::memcmp(&told[i], &own, sizeof own) == 0)
            std::memcpy(&told[i], &other, sizeof other);
        gather(told.data(), all, n);
      };
    world::create(c);
  });
  for (const std::string& t : texts)
    EXPECT_TRUE(says(t, "rank 1 runs another build of baton than rank 0")) << t;
}

/// What a rank tells of itself, in words of 32 bits, of which rank 1 flips a bit of the nth: what became of rank 0's world.
std::string heard_of_a_flipped_word(std::size_t nth, std::size_t& words) {
  const auto meeting = std::make_shared<bootstrap::thread_rendezvous>(2, milliseconds{10'000});
  std::string outcome;
  const auto texts = in_threads(2, [&](int rank) {
    world_config c = config_of(meeting, rank, 2);
    bool is_first = true;
    if (rank == 1)
      c.all_gather = [&, gather = c.all_gather](const void* mine, void* all, std::size_t n) {
        std::vector<std::uint32_t> told(n / sizeof(std::uint32_t));
        std::memcpy(told.data(), mine, n);
        if (std::exchange(is_first, false)) words = told.size(), told[nth] ^= 1;
        gather(told.data(), all, n);
      };
    const world w = world::create(c);
    if (rank == 0 && !w.state().in_process) outcome += "of other processes";
    if (rank == 0 && w.hosts() != std::vector<int>{0, 0}) outcome += "on other hosts";
  });
  return texts[0] + outcome;
}

/// Nothing of it is told in vain: who runs where, who shares addresses with whom, and who would disagree later.
TEST(world, each_word_that_a_rank_tells_of_itself_matters) {
  std::vector<std::string> heard;
  for (std::size_t nth = 0, words = 1; nth < words; ++nth) {
    heard.push_back(heard_of_a_flipped_word(nth, words));
    EXPECT_NE(heard.back(), "") << "word " << nth;
  }
  const auto times = [&](const char* what) {
    return std::count_if(heard.begin(), heard.end(), [&](const std::string& one) { return says(one, what); });
  };
  EXPECT_EQ(times("run on different machines"), 2);
  EXPECT_EQ(times("on other hosts"), 2);
  EXPECT_EQ(times("of other processes"), 3) << "a process's number and its token";
}

/// What a process has drawn before it forks all of its children have.
TEST(world, ranks_that_were_forked_do_not_share_addresses) {
  world::create({});
  const std::string run = test::unique_name();
  const auto results = test::in_processes({0, 1}, [&](int rank) {
    test::set_launch_environment(rank, 2, run);
    return !world::from_environment(device_kind::cpu).state().in_process;
  });
  for (const test::rank_result& r : results) EXPECT_EQ(r.exit_code, 0) << r.thrown;
}

TEST(world, what_is_wrong_on_one_rank_is_told_to_all_at_once) {
  const auto meeting = std::make_shared<bootstrap::thread_rendezvous>(2, milliseconds{10'000});
  const auto start = std::chrono::steady_clock::now();
  const auto texts = in_threads(2, [&](int rank) {
    world_config c = config_of(meeting, rank, 2);
    if (rank == 1) c.deadline = milliseconds{-1};
    world::create(c);
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds{8'000}) << "rank 0 waited for rank 1";
  EXPECT_TRUE(says(texts[0], "rank 1: world_config::deadline: -1 ms")) << texts[0];
  EXPECT_TRUE(says(texts[1], "world_config::deadline: -1 ms")) << texts[1];
}

template <class Error>
void expect_both_hear(const Error& thrown) {
  const auto meeting = std::make_shared<bootstrap::thread_rendezvous>(2, milliseconds{10'000});
  std::atomic<int> heard = 0;
  in_threads(2, [&](int rank) {
    try {
      bootstrap::together({rank, 2, bootstrap::all_gather_of(meeting, rank), milliseconds{10'000}}, [&] {
        if (rank == 1) throw thrown;
      });
    } catch (const Error& e) {
      const std::string said = rank == 1 ? thrown.what() : std::string{"rank 1: "} + thrown.what();
      bool same = e.what() == said;
      if constexpr (std::is_same_v<Error, out_of_memory>)
        same = same && e.needed == thrown.needed && e.free == thrown.free;
      heard += same ? 1 : 0;
    }
  });
  EXPECT_EQ(heard, 2) << thrown.what();
}

TEST(together, what_one_rank_throws_reaches_the_others_as_what_it_is) {
  expect_both_hear(out_of_memory{"too little", 700, 300});
  expect_both_hear(invalid_argument{"a wrong size"});
  expect_both_hear(unsupported{"not here"});
  expect_both_hear(cuda_error{"a driver's word"});
  expect_both_hear(transport_error{"nobody listens"});
}

TEST(world, a_callback_of_more_ranks_than_config_says_writes_into_nothing_else) {
  world_config c;
  c.size = 2;
  c.all_gather = [](const void* mine, void* all, std::size_t bytes) {
    for (std::size_t r = 0; r < 100; ++r) std::memcpy(static_cast<char*>(all) + r * bytes, mine, bytes);
  };
  EXPECT_TRUE(says(text_of<transport_error>([&] { world::create(c); }), "brings the bytes of 100 ranks"));
}

TEST(world, the_longest_deadline_is_long) {
  const auto meeting = std::make_shared<bootstrap::thread_rendezvous>(2, milliseconds::max());
  const auto texts = in_threads(2, [&](int rank) {
    if (rank == 1) std::this_thread::sleep_for(milliseconds{20});
    world_config c = config_of(meeting, rank, 2);
    c.deadline = milliseconds::max();
    const world w = world::create(c);
    EXPECT_GT(w.state().limits().deadline_ns, 1'000'000'000'000'000u);
  });
  for (const std::string& t : texts) EXPECT_EQ(t, "");
}

TEST(world, cuda_in_a_build_without_it_says_how_to_get_it) {
  const std::string text = text_of<unsupported>([] { world::local(1, device_kind::cuda); });
  if (says(text, "nothing was thrown")) GTEST_SKIP() << "this build has CUDA and found a GPU";
  EXPECT_TRUE(says(text, "-DBATON_CUDA=ON") || says(text, "CUDA")) << text;
}

TEST(world, a_callback_that_mixes_up_ranks_is_caught) {
  const auto meeting = std::make_shared<bootstrap::thread_rendezvous>(2, milliseconds{10'000});
  const auto texts = in_threads(2, [&](int rank) {
    world_config c = config_of(meeting, rank, 2);
    c.all_gather = bootstrap::all_gather_of(meeting, 1 - rank);
    world::create(c);
  });
  for (const std::string& t : texts) EXPECT_TRUE(says(t, "not in rank order")) << t;
}

TEST(world, the_deadline_can_be_raised_and_a_bad_one_is_refused) {
  ::setenv("BATON_DEADLINE_MS", "1234", 1);
  EXPECT_EQ(world::create({}).deadline(), milliseconds{1234});
  ::setenv("BATON_DEADLINE_MS", "soon", 1);
  EXPECT_TRUE(says(text_of<invalid_argument>([] { world::create({}); }), "BATON_DEADLINE_MS='soon'"));
  ::unsetenv("BATON_DEADLINE_MS");
  EXPECT_EQ(world::create({}).deadline(), milliseconds{30'000});
}

TEST(world, a_rank_that_never_joins_a_collective_call_is_named) {
  ::setenv("BATON_DEADLINE_MS", "100", 1);
  const auto worlds = world::local(3, device_kind::cpu);
  ::unsetenv("BATON_DEADLINE_MS");
  const auto texts = in_threads(2, [&](int rank) {
    std::vector<char> all(3);
    worlds[static_cast<std::size_t>(rank)].all_gather("x", all.data(), 1);
  });
  for (const std::string& t : texts) EXPECT_TRUE(says(t, "for rank 2 to join")) << t;
}

TEST(world, ranks_that_bring_different_sizes_all_hear_about_it) {
  const auto worlds = world::local(2, device_kind::cpu);
  const auto texts = in_threads(2, [&](int rank) {
    std::vector<char> mine(8), all(64);
    worlds[static_cast<std::size_t>(rank)].all_gather(mine.data(), all.data(), rank == 0 ? 4 : 8);
  });
  for (const std::string& t : texts) EXPECT_TRUE(says(t, "disagree in a collective call")) << t;
}

TEST(on_every_rank, an_error_of_one_rank_ends_the_others_and_the_worlds_stay_usable) {
  const auto worlds = world::local(3, device_kind::cpu);
  const auto gather_once = [&](int rank) {
    int mine = rank, all[3] = {};
    worlds[static_cast<std::size_t>(rank)].all_gather(&mine, all, sizeof mine);
    EXPECT_EQ(all[2], 2);
  };
  const std::string text = text_of<invalid_argument>([&] {
    on_every_rank(worlds, [&](int rank) {
      if (rank == 1) throw invalid_argument{"planted"};
      gather_once(rank);
    });
  });
  EXPECT_EQ(text, "planted");
  on_every_rank(worlds, gather_once);
}

/// Memory for one thread of 64 MiB and not for two.
void limit_to_one_thread() {
  constexpr std::size_t stack = std::size_t{64} << 20;
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, stack);
  ::pthread_setattr_default_np(&attributes);
  std::size_t pages = 0;
  std::ifstream{"/proc/self/statm"} >> pages;
  const rlim_t most = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + stack * 3 / 2;
  const rlimit limit{most, most};
  ::setrlimit(RLIMIT_AS, &limit);
}

TEST(on_every_rank, a_thread_that_cannot_start_ends_the_ranks_that_did_and_the_worlds_stay_usable) {
  const auto results = test::in_processes({0}, [](int) {
    ::setenv("BATON_DEADLINE_MS", "0", 1);  // whoever waits waits forever
    const auto worlds = world::local(3, device_kind::cpu);
    const auto gather_once = [&](int rank) {
      int mine = rank, all[3] = {};
      worlds[static_cast<std::size_t>(rank)].all_gather(&mine, all, sizeof mine);
    };
    limit_to_one_thread();
    try {
      on_every_rank(worlds, gather_once);
      return false;
    } catch (const unsupported& e) {
      if (!says(e.what(), "cannot start a thread for rank")) throw;
    }
    pthread_attr_t attributes;
    ::pthread_attr_init(&attributes);
    ::pthread_attr_setstacksize(&attributes, std::size_t{1} << 20);
    ::pthread_setattr_default_np(&attributes);
    on_every_rank(worlds, gather_once);
    return true;
  });
  EXPECT_EQ(results[0].exit_code, 0) << results[0].thrown;
}

TEST(on_every_rank, anything_but_all_ranks_of_one_local_world_is_refused) {
  const auto worlds = world::local(2, device_kind::cpu);
  const std::vector<world> one{worlds[0]};
  EXPECT_THROW(on_every_rank(one, [](int) {}), invalid_argument);
  EXPECT_THROW(on_every_rank(std::vector<world>{}, [](int) {}), invalid_argument);
}

TEST(stuck_report, a_record_becomes_an_error_once_and_clears_the_abort_word) {
  const world w = world::create({});
  const detail::report_memory& memory = w.state().reports;
  stuck_record r{};
  r.claimed = 1;
  r.complete = 1;
  r.slot = -1;
  r.rank = 3;
  r.peer = 6;
  r.where = "dispatch.arrival";
  r.epoch = 18;
  r.expected = 0x12'0000'0040;
  r.seen = 0x11'0000'0040;
  r.waited_ns = 30'000'000'000;
  *memory.record_host = r;
  *memory.abort_device = 1;
  try {
    w.synchronize();
    FAIL() << "nothing was thrown";
  } catch (const stuck& e) {
    const std::string text = e.what();
    EXPECT_TRUE(says(text, "rank 3 waited 30.0 s at dispatch.arrival for rank 6, round 18: expected "))
        << text;
    EXPECT_TRUE(says(text,
                     "it never got that far in its round, died, or runs a different configuration. Raise "
                     "BATON_DEADLINE_MS if peers may be this late."))
        << text;
    EXPECT_EQ(e.where.peer, 6);
    EXPECT_EQ(e.where.epoch, 18u);
    EXPECT_EQ(e.where.site, "dispatch.arrival");
  }
  EXPECT_EQ(*memory.abort_device, 0u);
  EXPECT_EQ(memory.record_host->claimed, 0u);
  w.synchronize();
}

/// As who is beyond the p2p group is asked whom it waited for; on GPUs once the host knows that a wait gave up.
TEST(stuck_report, is_read_when_who_may_know_more_has_been_asked_but_who_is_gone_is_not) {
  const world w = world::create({});
  stuck_record& record = *w.state().reports.record_host;
  record = {.claimed = 1, .complete = 1, .rank = 0, .peer = 6, .where = "dispatch.arrival"};
  record.waited_ns = 1;
  bool is_asked_of_gone = false;
  const int stays = 0, goes = 0;
  w.state().asked_when_stuck.add(&goes, [&] { is_asked_of_gone = true; });
  w.state().asked_when_stuck.add(&stays, [&] { record.claimed = stuck_record::lost_is + 4; });
  w.state().asked_when_stuck.remove(&goes);
  try {
    w.synchronize();
    FAIL() << "nothing was thrown";
  } catch (const stuck& e) {
    EXPECT_EQ(e.where.peer, 4);
    EXPECT_TRUE(says(e.what(), "for rank 6, which waited in turn, at last for rank 4"));
  }
  EXPECT_FALSE(is_asked_of_gone);
}

}  // namespace
}  // namespace baton
