// Ranks that are processes: the environment, the meeting at a Unix socket, descriptors across it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "baton/error.hpp"
#include "baton/world.hpp"
#include "bootstrap/exchange_descriptors.hpp"
#include "bootstrap/launch_environment.hpp"
#include "bootstrap/process_rendezvous.hpp"
#include "bootstrap/unix_socket.hpp"
#include "runtime/world_state.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/forked_ranks.hpp"

namespace baton {
namespace {

using std::chrono::milliseconds;
using test::in_processes;
using test::rank_result;
using test::says;
using test::unique_name;

std::shared_ptr<bootstrap::process_rendezvous> join_at(const std::string& name, int rank, int size) {
  return std::make_shared<bootstrap::process_rendezvous>(
      bootstrap::rendezvous_config{name, rank, size, milliseconds{20'000}});
}

void set_environment(int rank, int size, const std::string& run, const char* deadline_ms = "20000") {
  test::set_launch_environment(rank, size, run);
  ::setenv("BATON_DEADLINE_MS", deadline_ms, 1);
}

TEST(from_environment, processes_find_each_other_twice_and_gather) {
  const std::string run = unique_name();
  const auto results = in_processes({2, 0, 1, 3}, [&](int rank) {
    set_environment(rank, 4, run);
    for (int turn = 0; turn < 3; ++turn) {
      const world w = world::from_environment(device_kind::cpu);
      if (w.rank() != rank || w.size() != 4 || w.state().in_process) return false;
      for (int round = 0; round < 50; ++round) {
        std::vector<int> mine(5000, 100 * round + rank), all(4 * 5000);
        w.all_gather(mine.data(), all.data(), mine.size() * sizeof(int));
        for (int r = 0; r < 4; ++r)
          if (all[static_cast<std::size_t>(r) * 5000 + 4999] != 100 * round + r) return false;
      }
    }
    return true;
  });
  for (const rank_result& r : results) EXPECT_EQ(r.exit_code, 0) << r.thrown;
}

TEST(from_environment, a_missing_rank_is_named_on_every_other_within_the_deadline) {
  const std::string run = unique_name();
  const auto start = std::chrono::steady_clock::now();
  const auto results = in_processes({0, 1, 3}, [&](int rank) {
    set_environment(rank, 4, run, "2000");
    world::from_environment(device_kind::cpu);
    return true;
  });
  // Rank 0's deadline, the clients' grace of at most 2 s, and starting processes on a busy machine.
  EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds{2000 + 2000 + 6000});
  for (const rank_result& r : results) {
    EXPECT_EQ(r.exit_code, 2);
    EXPECT_TRUE(says(r.thrown, "for rank 2 to join")) << r.thrown;
  }
}

TEST(from_environment, a_missing_rank_0_is_named_by_the_others) {
  const std::string run = unique_name();
  const auto results = in_processes({1, 2}, [&](int rank) {
    set_environment(rank, 3, run, "300");
    world::from_environment(device_kind::cpu);
    return true;
  });
  for (const rank_result& r : results) EXPECT_TRUE(says(r.thrown, "for rank 0 to listen at")) << r.thrown;
}

TEST(from_environment, a_rank_that_dies_later_is_named) {
  const std::string run = unique_name();
  const auto results = in_processes({0, 1, 2}, [&](int rank) {
    set_environment(rank, 3, run);
    const world w = world::from_environment(device_kind::cpu);
    if (rank == 2) ::_exit(0);
    char all[3];
    w.all_gather("x", all, 1);
    return true;
  });
  EXPECT_TRUE(says(results[0].thrown, "rank 2 left")) << results[0].thrown;
  EXPECT_TRUE(says(results[1].thrown, "rank 2 left")) << results[1].thrown;
}

TEST(from_environment, ranks_that_disagree_about_the_size_all_hear_about_it) {
  const std::string run = unique_name();
  const auto results = in_processes({0, 1}, [&](int rank) {
    set_environment(rank, rank == 0 ? 2 : 3, run);
    world::from_environment(device_kind::cpu);
    return true;
  });
  for (const rank_result& r : results) EXPECT_TRUE(says(r.thrown, "WORLD_SIZE=3")) << r.thrown;
}

TEST(from_environment, two_processes_with_one_rank_are_refused) {
  const std::string run = unique_name();
  const auto results = in_processes({0, 1, 1}, [&](int rank) {
    set_environment(rank, 3, run);
    world::from_environment(device_kind::cpu);
    return true;
  });
  EXPECT_TRUE(says(results[0].thrown, "two processes came as rank 1")) << results[0].thrown;
}

/// In this process: nothing of what they set is left for other tests.
class launch_environment : public testing::Test {
 protected:
  ~launch_environment() override {
    for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT",
                             "TORCHELASTIC_RUN_ID", "BATON_DEADLINE_MS"})
      ::unsetenv(name);
  }
};

TEST_F(launch_environment, a_missing_or_silly_variable_is_named_with_its_value) {
  const auto text_with = [](const char* name, const char* value) -> std::string {
    set_environment(0, 2, "x");
    if (value != nullptr)
      ::setenv(name, value, 1);
    else
      ::unsetenv(name);
    try {
      bootstrap::read_launch_environment();
      return "nothing was thrown";
    } catch (const error& e) {
      return e.what();
    }
  };
  EXPECT_TRUE(says(text_with("RANK", nullptr), "RANK is not set; start the ranks with torchrun"));
  EXPECT_TRUE(says(text_with("RANK", "2"), "RANK='2', expected a number from 0 to 1"));
  EXPECT_TRUE(says(text_with("WORLD_SIZE", "two"), "WORLD_SIZE='two'"));
  EXPECT_TRUE(says(text_with("MASTER_PORT", nullptr), "MASTER_PORT is not set"));
  EXPECT_TRUE(says(text_with("LOCAL_WORLD_SIZE", "1"), "several machines"));
  EXPECT_TRUE(
      says(text_with("LOCAL_WORLD_SIZE", "1"), "in Python use World.from_torch or World.from_mpi, in C++ "));
  ::unsetenv("LOCAL_WORLD_SIZE");
  EXPECT_EQ(text_with("LOCAL_RANK", nullptr), "nothing was thrown");
}

TEST_F(launch_environment, a_rank_is_its_number_on_its_machine_unless_that_is_given) {
  set_environment(1, 2, "x");
  ::setenv("LOCAL_RANK", "0", 1);
  EXPECT_EQ(bootstrap::read_launch_environment().local_rank, 0);
  ::unsetenv("LOCAL_RANK");
  EXPECT_EQ(bootstrap::read_launch_environment().local_rank, 1);
}

TEST_F(launch_environment, a_long_run_id_still_fits_a_socket_name) {
  set_environment(0, 2, std::string(400, 'r'));
  EXPECT_LE(bootstrap::read_launch_environment().ranks.name.size(), bootstrap::longest_socket_name);
}

TEST(process_rendezvous, calls_out_of_step_are_caught) {
  const std::string name = unique_name();
  const auto results = in_processes({0, 1}, [&](int rank) {
    bootstrap::process_rendezvous meeting{{name, rank, 2, milliseconds{20'000}}};
    std::vector<char> mine(16), all(64);
    meeting.all_gather(mine.data(), all.data(), rank == 0 ? 8 : 16);
    return true;
  });
  for (const rank_result& r : results)
    EXPECT_TRUE(says(r.thrown, "disagree in a collective call")) << r.thrown;
}

TEST(process_rendezvous, a_name_in_use_is_refused) {
  const std::string name = unique_name();
  const bootstrap::file_descriptor taken = bootstrap::listen_at(name, 1);
  try {
    const bootstrap::process_rendezvous meeting{{name, 0, 2, milliseconds{50}}};
    FAIL() << "nothing was thrown";
  } catch (const transport_error& e) {
    EXPECT_TRUE(says(e.what(), "another job of this machine uses the name")) << e.what();
  }
}

TEST(exchange_descriptors, every_process_can_read_what_every_other_opened) {
  const std::string name = unique_name();
  constexpr int size = 4;
  const auto results = in_processes({0, 1, 2, 3}, [&](int rank) {
    auto meeting = join_at(name, rank, size);
    const bootstrap::group g{
        rank, size,
        [meeting](const void* mine, void* all, std::size_t n) { meeting->all_gather(mine, all, n); },
        milliseconds{20'000}};
    int ends[2];
    if (::pipe(ends) != 0) return false;
    const std::string text(3, static_cast<char>('a' + rank));
    for (int copy = 0; copy < size; ++copy)
      if (::write(ends[1], text.data(), 3) != 3) return false;
    const auto received = bootstrap::exchange_descriptors(g, ends[0]);
    for (int r = 0; r < size; ++r) {
      if (r == rank) {
        if (received[static_cast<std::size_t>(r)]) return false;
        continue;
      }
      const int fd = received[static_cast<std::size_t>(r)].get();
      char got[3] = {};
      if (::read(fd, got, 3) != 3 || got[0] != 'a' + r || got[2] != 'a' + r) return false;
      if ((::fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0) return false;
    }
    bootstrap::meet(g);
    return true;
  });
  for (const rank_result& r : results) EXPECT_EQ(r.exit_code, 0) << r.thrown;
}

TEST(exchange_descriptors, a_descriptor_that_cannot_be_sent_fails_on_every_rank) {
  const std::string name = unique_name();
  const auto results = in_processes({0, 1, 2}, [&](int rank) {
    auto meeting = join_at(name, rank, 3);
    const bootstrap::group g{
        rank, 3, [meeting](const void* mine, void* all, std::size_t n) { meeting->all_gather(mine, all, n); },
        milliseconds{500}};
    bootstrap::exchange_descriptors(g, rank == 1 ? 9999 : 0);
    return true;
  });
  for (const rank_result& r : results) {
    EXPECT_EQ(r.exit_code, 2);
    EXPECT_TRUE(says(r.thrown, "rank")) << r.thrown;
  }
  EXPECT_TRUE(says(results[1].thrown, "rank 1 could not hand a memory handle")) << results[1].thrown;
}

TEST(exchange_descriptors, a_rank_without_room_for_another_file_says_so_to_all) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "UndefinedBehaviorSanitizer opens a pipe to look at an object, and takes an object for bad "
                  "if it cannot";
#endif
  const std::string name = unique_name();
  const auto results = in_processes({0, 1, 2}, [&](int rank) {
    auto rendezvous = join_at(name, rank, 3);
    const bootstrap::group g{
        rank, 3,
        [rendezvous](const void* mine, void* all, std::size_t n) { rendezvous->all_gather(mine, all, n); },
        milliseconds{500}};
    const int next = ::dup(0);
    const rlimit most{static_cast<rlim_t>(next) + 2,
                      static_cast<rlim_t>(next) + 2};  // what `next` leaves, and one
    ::close(next);
    if (rank == 1) ::setrlimit(RLIMIT_NOFILE, &most);
    bootstrap::exchange_descriptors(g, 0);
    return true;
  });
  for (const rank_result& r : results)
    EXPECT_TRUE(says(r.thrown, "Too many open files; raise the limit of open files (ulimit -n)")) << r.thrown;
}

TEST(unix_socket, a_connection_of_another_user_counts_on_neither_side) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const std::string name = unique_name();
  const bootstrap::file_descriptor listener = bootstrap::listen_at(name, 4);
  const auto results = in_processes({0}, [&](int) {
    if (::setuid(65534) != 0)
      throw transport_error{"belongs to another user, for all that this system tells"};
    return !bootstrap::try_connect(name);
  });
  EXPECT_TRUE(says(results[0].thrown, "belongs to another user")) << results[0].thrown;
  EXPECT_FALSE(bootstrap::try_accept(listener));
}

TEST(exchange_descriptors, a_stranger_without_the_note_is_ignored) {
  const std::string name = unique_name();
  const bootstrap::file_descriptor listener = bootstrap::listen_at(name, 4);
  const bootstrap::time_limit limit{milliseconds{2000}};
  const auto sender = bootstrap::connect_to(name, limit);
  ASSERT_TRUE(sender);
  ASSERT_EQ(bootstrap::send_all(sender, "12345678", 8, limit), bootstrap::io::done);
  const auto receiver = bootstrap::try_accept(listener);
  ASSERT_TRUE(receiver);
  std::uint64_t note = 0;
  EXPECT_FALSE(bootstrap::receive_descriptor_now(receiver, note));
}

}  // namespace
}  // namespace baton
