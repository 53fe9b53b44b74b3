// Who meets whom: two jobs at one name, strangers, latecomers, processes that end or fork at the wrong moment.
#include "bootstrap/handshake.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "baton/error.hpp"
#include "bootstrap/process_rendezvous.hpp"
#include "bootstrap/unix_socket.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/forked_ranks.hpp"

namespace baton {
namespace {

using namespace bootstrap;
using std::chrono::milliseconds;
using test::in_processes;
using test::rank_result;
using test::says;
using test::unique_name;

rendezvous_config config_at(const std::string& name, int rank, int size, int deadline_ms = 20'000) {
  rendezvous_config m;
  m.name = name;
  m.rank = rank;
  m.size = size;
  m.deadline = milliseconds{deadline_ms};
  return m;
}

/// Steps of several processes, in memory that they share.
class shared_steps {
 public:
  shared_steps()
      : at_{static_cast<std::atomic<int>*>(
            ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))} {}
  ~shared_steps() { ::munmap(at_, 4096); }
  shared_steps(const shared_steps&) = delete;
  shared_steps& operator=(const shared_steps&) = delete;

  void done(int step) const { ++at_[step]; }
  std::atomic<pid_t>& process() const { return at_[100]; }
  /// False: it did not happen within ten seconds.
  bool wait(int step, int times = 1) const {
    for (int i = 0; i < 5000 && at_[step] < times; ++i) std::this_thread::sleep_for(milliseconds{2});
    return at_[step] >= times;
  }

 private:
  std::atomic<int>* at_;
};

/// Whether the ranks that met all carry this process's letter.
bool all_carry(process_rendezvous& met, char letter, int size) {
  std::string all(static_cast<std::size_t>(size), ' ');
  met.all_gather(&letter, all.data(), 1);
  return all == std::string(static_cast<std::size_t>(size), letter);
}

/// As a rank that says hello and then no more.
file_descriptor say_hello(const std::string& name, int rank, int size) {
  const time_limit limit{milliseconds{5000}};
  file_descriptor root = connect_to(name, limit);
  hello h;
  h.rank = rank;
  h.size = size;
  h.job = job_of_this_process();
  send_all(root, &h, sizeof h, limit);
  return root;
}

bool names_the_other_job(const std::string& text) {
  return says(text, "another job") || says(text, "came too late") || says(text, "two processes came");
}

TEST(two_jobs, that_two_launchers_start_at_once_at_one_name_never_mix_and_the_first_works) {
  constexpr int size = 3;
  for (int turn = 0; turn < 3; ++turn) {
    const std::string name = unique_name();
    const shared_steps steps;
    const auto launchers = in_processes({0, 1}, [&](int job) {
      int works = 0, told = 0;
      std::string said;
      for (const rank_result& r : in_processes({2, 0, 1}, [&](int rank) {
             try {
               // Long: who comes while the other job still meets hears of it only when that is over.
               process_rendezvous met{config_at(name, rank, size, 6000)};
               const bool pure = all_carry(met, static_cast<char>('a' + job), size);
               // As long as this world lives the other job is refused.
               return steps.wait(0, size) && pure;
             } catch (const transport_error&) {
               steps.done(0);
               throw;
             }
           })) {
        if (r.exit_code == 0) ++works;
        if (r.exit_code == 2 && names_the_other_job(r.thrown)) ++told;
        said += fmt::format("\n{}: {}", r.exit_code, r.thrown);
      }
      if (works == size) steps.done(1);
      if (works < size && told < size) throw std::runtime_error{said};
      return true;
    });
    for (const rank_result& r : launchers) EXPECT_EQ(r.exit_code, 0) << r.thrown;
    EXPECT_TRUE(steps.wait(1));
  }
}

TEST(two_jobs, that_nothing_tells_apart_both_hear_of_it_while_they_meet) {
  const std::string name = unique_name();
  const shared_steps steps;
  const auto results = in_processes({0, 1, 10}, [&](int process) {
    if (process == 1) {
      const file_descriptor root = say_hello(name, 1, 3);
      steps.done(0);
      throw transport_error{receive_answer(root, time_limit{milliseconds{5000}}).reason};
    }
    if (process == 10) steps.wait(0);
    process_rendezvous{config_at(name, 0, 3)};
    return true;
  });
  for (const rank_result& r : results)
    EXPECT_TRUE(
        says(r.thrown, "two processes came as rank 0: RANK must be unique within a job, and two jobs"))
        << r.thrown;
}

TEST(two_jobs, with_different_secrets_never_mix) {
  const std::string name = unique_name();
  const shared_steps steps;
  const auto results = in_processes({11, 12, 0, 1, 2}, [&](int process) {
    ::setenv("BATON_JOB", process > 10 ? "the other one" : "ours", 1);
    if (process == 2 && !steps.wait(0, 2)) return false;
    try {
      process_rendezvous met{config_at(name, process % 10, 3)};
      return all_carry(met, 'a', 3);
    } catch (const transport_error&) {
      steps.done(0);
      throw;
    }
  });
  for (const rank_result& r : results)
    EXPECT_TRUE(r.thrown.empty() || says(r.thrown, "given different BATON_JOB")) << r.thrown;
  for (const std::size_t ours : {2, 3, 4}) EXPECT_EQ(results[ours].exit_code, 0) << results[ours].thrown;
}

/// The shortest of several meetings of three ranks, in milliseconds; a fourth process of their starter looks on.
double shortest_meeting(bool with_onlooker) {
  double shortest = 1e9;
  for (int turn = 0; turn < 5; ++turn) {
    const std::string name = unique_name();
    const shared_steps microseconds;
    in_processes(with_onlooker ? std::vector{9, 0, 1, 2} : std::vector{0, 1, 2}, [&](int rank) {
      if (rank == 9) return microseconds.wait(1, 3);
      const auto start = std::chrono::steady_clock::now();
      const process_rendezvous met{config_at(name, rank, 3)};
      const auto took = std::chrono::steady_clock::now() - start;
      if (rank == 0)
        microseconds.process() =
            static_cast<int>(std::chrono::duration_cast<std::chrono::microseconds>(took).count());
      microseconds.done(1);
      return true;
    });
    shortest = std::min(shortest, microseconds.process() / 1000.0);
  }
  return shortest;
}

TEST(job_identity, ranks_that_are_all_their_starter_started_do_not_wait_for_those_of_another_job) {
  EXPECT_LT(shortest_meeting(false), 80.0);
  EXPECT_GE(shortest_meeting(true), 100.0) << "somebody else could be of another job";
}

TEST(job_identity, orphans_of_one_script_are_of_one_job_and_those_of_another_are_not) {
  const job_identity child = job_of_this_process();
  job_identity orphan = child, stranger = child;
  orphan.ancestors = {{{1, 1}}};
  orphan.is_orphan = 1;
  stranger.ancestors = {{{1, 2}, {1, 3}}};
  EXPECT_EQ(why_other_job(child, orphan, 1), "");
  EXPECT_NE(why_other_job(child, stranger, 1), "");
  orphan.process_group += 1;
  EXPECT_TRUE(says(why_other_job(child, orphan, 1), "set BATON_JOB to the same text")) << "another script's";
}

TEST(job_identity, ranks_with_a_wrapper_each_are_of_one_job) {
  const std::string name = unique_name();
  const auto wrappers = in_processes({0, 1, 2}, [&](int rank) {
    return in_processes({rank},
                        [&](int) {
                          process_rendezvous met{config_at(name, rank, 3, 5'000)};
                          return all_carry(met, 'a', 3);
                        })[0]
               .exit_code == 0;
  });
  for (const rank_result& r : wrappers) EXPECT_EQ(r.exit_code, 0);
}

TEST(handshake, one_who_comes_when_the_world_is_complete_is_refused_and_the_world_goes_on) {
  const std::string name = unique_name();
  const shared_steps steps;
  const auto results = in_processes({0, 1, 11, 10}, [&](int process) {
    if (process >= 10 && !steps.wait(0, 2)) return false;
    try {
      process_rendezvous met{config_at(name, process % 10, 2, process >= 10 ? 300 : 20'000)};
      steps.done(0);
      return steps.wait(1, 2) && all_carry(met, 'a', 2);
    } catch (const transport_error&) {
      steps.done(1);
      throw;
    }
  });
  for (const int rank : {0, 1}) EXPECT_EQ(results[static_cast<std::size_t>(rank)].exit_code, 0);
  EXPECT_TRUE(says(results[2].thrown, "rank 1 came too late")) << results[2].thrown;
  EXPECT_TRUE(says(results[3].thrown, "another job of this machine uses the name")) << results[3].thrown;
}

TEST(handshake, strangers_who_say_nothing_or_nonsense_hold_nobody_up) {
  const std::string name = unique_name();
  const shared_steps steps;
  const auto results = in_processes({0, 9, 1}, [&](int process) {
    if (process == 9) {
      const time_limit limit{milliseconds{5000}};
      std::vector<file_descriptor> strangers;
      for (int i = 0; i < 40; ++i) {
        strangers.push_back(connect_to(name, limit));
        if (i % 2 == 0) send_all(strangers.back(), "sixteen bytes...................", 16 + i % 16, limit);
        if (i % 4 == 0) strangers.pop_back();
      }
      steps.done(0);
      return steps.wait(1, 2);
    }
    if (process == 1 && !steps.wait(0)) return false;
    const auto start = std::chrono::steady_clock::now();
    process_rendezvous met{config_at(name, process, 2)};
    steps.done(1);
    if (process == 1 && std::chrono::steady_clock::now() - start > milliseconds{5000}) return false;
    return all_carry(met, 'a', 2);
  });
  for (const rank_result& r : results) EXPECT_EQ(r.exit_code, 0) << r.thrown;
}

TEST(handshake, strangers_beyond_what_there_is_room_for_go_when_they_have_been_silent_longest) {
  const std::string name = unique_name();
  const shared_steps steps;
  const auto results = in_processes({0, 9, 1}, [&](int process) {
    if (process == 9) {
      std::vector<file_descriptor> strangers;
      for (int i = 0; i < 70; ++i)  // four wait to be accepted
        strangers.push_back(connect_to(name, time_limit{milliseconds{5000}}));
      steps.done(0);
      return steps.wait(1, 2);
    }
    if (process == 1 && !steps.wait(0)) return false;
    process_rendezvous met{config_at(name, process, 2, 5000)};
    steps.done(1);
    return all_carry(met, 'a', 2);
  });
  for (const rank_result& r : results) EXPECT_EQ(r.exit_code, 0) << r.thrown;
}

TEST(handshake, a_rank_killed_before_all_are_there_leaves_its_place_to_its_successor) {
  const std::string name = unique_name();
  const shared_steps steps;
  const auto results = in_processes({0, 1, 11, 2}, [&](int process) {
    if (process == 1) {
      const file_descriptor root = say_hello(name, 1, 3);
      steps.done(0);
      std::this_thread::sleep_for(milliseconds{50});
      ::raise(SIGKILL);
    }
    if (process == 11) {
      if (!steps.wait(0)) return false;
      std::this_thread::sleep_for(milliseconds{400});  // rank 0 looks after its ranks five times a second
      steps.done(1);
    }
    if (process == 2 && !steps.wait(1)) return false;
    process_rendezvous met{config_at(name, process % 10, 3)};
    return all_carry(met, 'a', 3);
  });
  for (const int r : {0, 2, 3})
    EXPECT_EQ(results[static_cast<std::size_t>(r)].exit_code, 0)
        << results[static_cast<std::size_t>(r)].thrown;
}

/// What a client says to a rank 0 that answers these bytes and ends.
std::string answered(const std::string& bytes) {
  const std::string name = unique_name();
  return in_processes({0, 1},
                      [&](int rank) {
                        if (rank == 1) {
                          process_rendezvous{config_at(name, 1, 2)};
                          return true;
                        }
                        const file_descriptor listener = listen_at(name, 4);
                        file_descriptor client;
                        while (!client) client = try_accept(listener);
                        send_all(client, bytes.data(), bytes.size(), time_limit{milliseconds{1000}});
                        return true;
                      })[1]
      .thrown;
}

TEST(handshake, a_refusal_cut_short_is_no_welcome) {
  const answer refused{verdict::refused, 100, 0}, nonsense{static_cast<verdict>(7), 0, 0};
  const auto bytes_of = [](const answer& a) {
    return std::string{reinterpret_cast<const char*>(&a), sizeof a};
  };
  EXPECT_TRUE(
      says(answered(bytes_of(refused) + "because"), "refused rank 1 and ended before it had said why"));
  EXPECT_TRUE(says(answered(bytes_of(nonsense)), "rank 0 closed the connection"));
  EXPECT_TRUE(says(answered("abc"), "rank 0 closed the connection"));
}

TEST(handshake, a_rank_0_that_ends_cuts_off_those_who_join_though_it_gives_the_name_back_last) {
  const std::string name = unique_name();
  const auto results = in_processes({0, 1}, [&](int rank) {
    if (rank == 1) {
      process_rendezvous{config_at(name, 1, 2)};
      return true;
    }
    const file_descriptor claim = try_claim(name);
    file_descriptor listener = listen_at(name, 4), client;
    while (!client) client = try_accept(listener);
    listener = {};
    client = {};
    std::this_thread::sleep_for(milliseconds{100});  // rank 1 has noticed, and found the name still claimed
    return true;
  });
  EXPECT_EQ(results[0].exit_code, 0) << results[0].thrown;
  EXPECT_TRUE(says(results[1].thrown, "rank 0 closed the connection")) << results[1].thrown;
}

TEST(handshake, a_process_forked_from_a_rank_is_no_rank_and_does_not_keep_the_name) {
  const std::string name = unique_name();
  const shared_steps steps;
  const auto results = in_processes({0, 1, 2}, [&](int process) {
    if (process == 2) {  // comes after rank 0 has ended, while its child lives
      bool is_free = false;
      for (int i = 0; steps.wait(0) && i < 1000 && !is_free; ++i) {
        std::this_thread::sleep_for(milliseconds{5});
        is_free = static_cast<bool>(try_claim(name));
      }
      steps.done(1);
      return is_free;
    }
    process_rendezvous met{config_at(name, process, 2)};
    if (process == 0 && ::fork() == 0) {
      try {
        all_carry(met, 'a', 2);
      } catch (const transport_error& e) {
        if (says(e.what(), "was forked from process")) steps.done(0);
      }
      steps.wait(1);
      ::_exit(0);
    }
    return all_carry(met, 'a', 2) && steps.wait(0);
  });
  for (const rank_result& r : results) EXPECT_EQ(r.exit_code, 0) << r.thrown;
}

TEST(process_rendezvous, a_stopped_rank_is_named_within_the_deadline) {
  for (const int stopped : {0, 1}) {
    const std::string name = unique_name();
    const shared_steps steps;
    std::atomic<pid_t>& whom = steps.process();
    const auto results = in_processes({0, 1, 2}, [&](int rank) {
      process_rendezvous met{config_at(name, rank, 3, 300)};
      if (rank == stopped) {
        whom = ::getpid();
        steps.done(0);
        ::raise(SIGSTOP);
        return true;
      }
      if (!steps.wait(0)) return false;
      try {
        all_carry(met, 'a', 3);
        return false;
      } catch (const transport_error&) {
        steps.done(1);
        if (steps.wait(1, 2)) ::kill(whom, SIGKILL);
        throw;
      }
    });
    for (const int r : {1 - stopped, 2}) {
      const std::string& text = results[static_cast<std::size_t>(r)].thrown;
      EXPECT_TRUE(says(text, fmt::format("waited 300 ms for rank {} to", stopped))) << text;
    }
  }
}

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator{"/proc/self/fd"}, {});
}

/// As send_descriptor, with `count` of them and `bytes` bytes.
void send_badly(const file_descriptor& to, std::size_t count, std::size_t bytes) {
  char payload[8] = {};
  iovec what{payload, bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &what;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(count * sizeof(int));
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(count * sizeof(int));
  for (std::size_t i = 0; i < count; ++i) {
    const int fd = to.get();
    std::memcpy(CMSG_DATA(header) + i * sizeof fd, &fd, sizeof fd);
  }
  ASSERT_EQ(::sendmsg(to.get(), &message, 0), static_cast<ssize_t>(bytes));
}

TEST(receive_descriptor, refuses_other_messages_and_keeps_none_of_their_descriptors) {
  const std::ptrdiff_t before = open_descriptors();
  {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    const file_descriptor sender{ends[0]}, receiver{ends[1]};
    for (const auto& [count, bytes] :
         std::vector<std::pair<std::size_t, std::size_t>>{{2, 8}, {1, 4}, {7, 8}}) {
      send_badly(sender, count, bytes);
      std::uint64_t note = 0;
      EXPECT_FALSE(receive_descriptor_now(receiver, note))
          << count << " descriptors with " << bytes << " bytes";
    }
    EXPECT_EQ(open_descriptors(), before + 2);
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(handshake, a_rank_0_without_room_for_its_ranks_says_so_and_not_that_they_are_late) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "UndefinedBehaviorSanitizer opens a pipe to look at an object, and takes an object for bad "
                  "if it cannot";
#endif
  const std::string name = unique_name();
  const auto results = in_processes({0, 1}, [&](int rank) {
    const rendezvous_config where = config_at(name, rank, 2, 5'000);
    const int first = ::dup(0), second = ::dup(0);  // room for the claim and the listener
    ::close(first);
    ::close(second);
    const rlimit two_more{static_cast<rlim_t>(second) + 1, static_cast<rlim_t>(second) + 1};
    if (rank == 0) ::setrlimit(RLIMIT_NOFILE, &two_more);
    process_rendezvous{where};
    return true;
  });
  EXPECT_TRUE(says(results[0].thrown, "cannot accept a connection: Too many open files; raise the limit"))
      << results[0].thrown;
  EXPECT_TRUE(says(results[1].thrown, "rank 0 closed the connection")) << results[1].thrown;
}

TEST(receive_descriptor, with_no_room_for_another_says_so) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "UndefinedBehaviorSanitizer opens a pipe to look at an object, and takes an object for bad "
                  "if it cannot";
#endif
  const auto results = in_processes({0}, [](int) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return false;
    const file_descriptor sender{ends[0]}, receiver{ends[1]};
    send_badly(sender, 1, 8);
    const rlimit none{static_cast<rlim_t>(ends[1]) + 1, static_cast<rlim_t>(ends[1]) + 1};
    ::setrlimit(RLIMIT_NOFILE, &none);
    std::uint64_t note = 0;
    receive_descriptor_now(receiver, note);
    return true;
  });
  EXPECT_TRUE(says(results[0].thrown, "Too many open files; raise the limit of open files (ulimit -n)"))
      << results[0].thrown;
}

}  // namespace
}  // namespace baton
