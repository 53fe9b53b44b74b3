#include "tests/support/exchange_processes.hpp"

#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "baton/error.hpp"

namespace baton::test {
namespace {

TEST(exchange_processes, ranks_in_processes_of_their_own_exchange_through_shared_memory) {
  for (const int ranks : {2, 3}) expect_conformance_of_processes(ranks, device_kind::cpu, 2);
}

/// A round in which rank 1 is killed, before it or after its dispatch: where the others missed it.
std::string missed_killed_rank(const exchange_case& c, exchange_rank& mine, bool is_killed_between) {
  constexpr int killed = 1;
  const int rank = mine.ranks().rank();
  const auto die = [&](bool now) {
    if (rank != killed || !now) return;
    mine.ranks().synchronize();
    ::kill(::getpid(), SIGKILL);
  };
  die(is_killed_between);
  mine.load(draw_inputs(c, 2)[static_cast<std::size_t>(rank)]);
  mine.dispatch_async();
  mine.dispatch_wait();
  die(true);
  const device_buffer<bfloat16> replies{mine.ranks(), static_cast<std::size_t>(mine.received().max_rows) *
                                                          static_cast<std::size_t>(c.config.hidden)};
  mine.combine_async(replies.data());
  mine.combine_wait();
  try {
    mine.ranks().synchronize();
  } catch (const stuck& e) {
    if (e.where.peer != killed || e.where.epoch != 2) throw;
    return e.where.site;
  }
  return "nowhere";
}

TEST(exchange_processes, survivors_of_a_killed_process_name_it_and_make_a_world_without_it) {
  constexpr const char* before[] = {"dispatch.arrival", "dispatch.ids", "dispatch.ids", "dispatch.ids",
                                    "dispatch.ids",     "dispatch.ids", "dispatch.ids"};
  constexpr const char* within[] = {"combine.arrival", "combine.line",  "combine.sum",  "combine.line",
                                    "combine.sum",     "combine.words", "combine.words"};
  const auto results = in_worlds_of_three(
      5000, 2 * static_cast<int>(std::size(every_travel)), [&](int nth, int rank, const std::string& run) {
        const travel how = every_travel[nth / 2];
        const bool is_killed_between = nth % 2 == 0;
        set_launch_environment(rank, 3, run);
        {
          const exchange_case c = travelling(how, {3, sizes(6, 6, 64, 5), {5, 5, 5}, routing::distinct});
          exchange_rank mine{expert_parallel::create(world::from_environment(device_kind::cpu), c.config)};
          expect_no_error(run_rank(c, mine, 1));
          const std::string site = missed_killed_rank(c, mine, is_killed_between);
          const char* const* sites = is_killed_between ? before : within;
          if (site != sites[nth / 2]) throw std::runtime_error{site};
        }
        const exchange_case less = travelling(how, {2, sizes(6, 3, 64, 5), {5, 4}, routing::distinct});
        set_launch_environment(rank / 2, 2, run + "-less");
        exchange_rank again{expert_parallel::create(world::from_environment(device_kind::cpu), less.config)};
        expect_no_error(run_rank(less, again, 2));
        return true;
      });
  for (std::size_t i = 0; i < results.size(); ++i)
    EXPECT_EQ(results[i].exit_code, i % 3 == 1 ? 128 + SIGKILL : 0)
        << "world " << i / 3 << ", rank " << i % 3 << ": " << results[i].thrown;
}

TEST(exchange_processes, a_rank_with_another_configuration_is_named_on_every_rank_and_all_go_on) {
  const exchange_case lines =
      travelling(travel::in_lines, {3, sizes(6, 2, 64, 5), {5, 5, 5}, routing::distinct});
  const std::pair<std::string, std::function<void(ep_config&)>> changes[] = {
      {"layout is per_rank on rank 0 and per_expert", [](ep_config& c) { c.layout = ep_layout::per_expert; }},
      {"transfer is lines on rank 0 and chunks", [](ep_config& c) { c.transfer = ep_transfer::chunks; }},
      {"top_k is 2 on rank 0 and 3", [](ep_config& c) { c.top_k = 3; }},
      {"num_max_tokens_per_rank is 5 on rank 0 and 6", [](ep_config& c) { c.num_max_tokens_per_rank = 6; }}};
  const std::string run = unique_name();
  const auto results = in_processes({0, 1, 2}, [&](int rank) -> bool {
    set_launch_environment(rank, 3, run);
    const world w = world::from_environment(device_kind::cpu);
    for (const auto& [difference, change] : changes) {
      ep_config mine = lines.config;
      if (rank == 2) change(mine);
      try {
        expert_parallel::create(w, mine);
        return false;
      } catch (const invalid_argument& e) {
        if (e.what() != "ep_config differs between ranks: " + difference + " on rank 2")
          throw std::runtime_error{e.what()};
      }
    }
    for (const travel how : every_travel) {
      const exchange_case c = travelling(how, lines);
      exchange_rank mine{expert_parallel::create(w, c.config)};
      expect_no_error(run_rank(c, mine, 1));
    }
    return true;
  });
  for (const rank_result& r : results) EXPECT_EQ(r.exit_code, 0) << r.thrown;
}

TEST(exchange_processes, a_process_that_never_launches_is_named_on_every_other) {
  const auto results =
      in_worlds_of_three(5000, std::size(every_travel), [&](int nth, int rank, const std::string& run) {
        const travel how = every_travel[nth];
        set_launch_environment(rank, 3, run);
        const world w = world::from_environment(device_kind::cpu);
        const exchange_case c = travelling(how, {3, sizes(6, 2, 64, 5), {5, 5, 5}, routing::distinct});
        exchange_rank mine{expert_parallel::create(w, c.config)};
        if (rank == 2) {
          ::usleep(1'500'000);  // or it would not meet who waits for it in vain first
        } else {
          try {
            run_rank(c, mine, 1);
            return false;
          } catch (const stuck& e) {
            if (e.where.peer != 2 ||
                e.where.site != (how == travel::by_expert ? "dispatch.arrival" : "dispatch.ids"))
              throw;
          }
        }
        exchange_rank anew{expert_parallel::create(w, c.config)};
        expect_no_error(run_rank(c, anew, 1));
        return true;
      });
  for (const rank_result& r : results) EXPECT_EQ(r.exit_code, 0) << r.thrown;
}

/// From `after` on this process stands still for `how_long`. Call before it has threads.
void stop_later(std::chrono::milliseconds after, std::chrono::milliseconds how_long) {
  const pid_t stopped = ::getpid();
  if (::fork() != 0) return;
  std::this_thread::sleep_for(after);
  ::kill(stopped, SIGSTOP);
  std::this_thread::sleep_for(how_long);
  ::kill(stopped, SIGCONT);
  ::_exit(0);
}

TEST(exchange_processes,
     a_rank_that_was_stopped_while_it_waited_does_not_take_that_time_for_its_peers_lateness) {
  using std::chrono::milliseconds;
  constexpr milliseconds stops_at{200}, stands{2000}, deadline{1500};
  const exchange_case c{2, sizes(4, 2, 64, 5), {5, 5}, routing::distinct};
  const std::string run = unique_name();
  const auto results = in_processes({0, 1}, [&](int rank) -> bool {
    ::setenv("BATON_DEADLINE_MS", std::to_string(deadline.count()).c_str(), 1);
    set_launch_environment(rank, 2, run);
    const auto began = std::chrono::steady_clock::now();
    if (rank == 0) stop_later(stops_at, stands);
    exchange_rank mine{expert_parallel::create(world::from_environment(device_kind::cpu), c.config)};
    if (rank == 1) std::this_thread::sleep_until(began + stops_at + stands + milliseconds{200});
    expect_no_error(run_rank(c, mine, 1));
    if (std::chrono::steady_clock::now() - began < stops_at + stands)
      throw std::runtime_error{"nobody stood still"};
    return true;
  });
  for (const rank_result& r : results) EXPECT_EQ(r.exit_code, 0) << r.thrown;
}

TEST(exchange_processes, a_rank_that_cannot_allocate_tells_the_others_at_once) {
  const exchange_case c{2, sizes(2, 1, 8192, 512), {}, routing::distinct};
  const std::string run = unique_name();
  const auto results = in_processes({0, 1}, [&](int rank) -> bool {
    set_launch_environment(rank, 2, run);
    const world w = world::from_environment(device_kind::cpu);
    if (rank == 1) {
      std::size_t pages = 0;
      std::ifstream{"/proc/self/statm"} >> pages;
      const rlim_t most = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + (4u << 20);
      const rlimit limit{most, most};
      ::setrlimit(RLIMIT_AS, &limit);
    }
    try {
      expert_parallel::create(w, c.config);
      return false;
    } catch (const out_of_memory& e) {
      char ends[2];
      w.all_gather("e", ends, 1);  // this world still works: it is not its end that the others hear of
      throw;
    }
  });
  EXPECT_NE(results[0].thrown.find("rank 1: host memory for"), std::string::npos) << results[0].thrown;
  EXPECT_NE(results[1].thrown.find("host memory for"), std::string::npos) << results[1].thrown;
}

}  // namespace
}  // namespace baton::test
