// A communicator's memory goes back to the machine, and comes again at the same addresses.
#include <array>
#include <csignal>
#include <fstream>

#include "baton/error.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/exchange_processes.hpp"
#include "tests/support/identity_experts.hpp"
#include "tests/support/resident_pages.hpp"
#include "tests/support/simulated_worlds.hpp"

namespace baton::test {
namespace {

using ranks_of_slots = std::vector<std::vector<exchange_rank>>;

class exchange_release : public testing::TestWithParam<travel> {
 protected:
  static exchange_case travelling() {
    exchange_case c = test::travelling(GetParam(), {3, sizes(11, 3, 64, 9), {9, 4, 0}, routing::sparse});
    c.config.num_slots = 2;
    return c;
  }
};

INSTANTIATE_TEST_SUITE_P(cpu, exchange_release, testing::ValuesIn(every_travel),
                         [](const auto& how) { return name(how.param); });

ranks_of_slots make_on_one_stream(std::span<const world> worlds, const exchange_case& c) {
  return make_slots(worlds, c.config, [](int, int) { return stream_ref{}; });
}
void release_all(std::span<const world> worlds, ranks_of_slots& slots) {
  on_every_rank(worlds, [&](int r) { slots[0][static_cast<std::size_t>(r)].ep().release(); });
}
void reacquire_all(std::span<const world> worlds, ranks_of_slots& slots) {
  on_every_rank(worlds, [&](int r) { slots[0][static_cast<std::size_t>(r)].ep().reacquire(); });
}

/// Rounds in all slots. Empty if all is right.
std::string run_rounds(const exchange_case& c, ranks_of_slots& slots, std::uint64_t first_seed, int rounds) {
  for (int i = 0; i < rounds; ++i)
    for (auto& ranks : slots)
      if (const std::string wrong =
              run_round(c, ranks, first_seed++, i % 2 == 0 ? calls::fused : calls::apart);
          !wrong.empty())
        return wrong;
  return {};
}

TEST_P(exchange_release, rounds_after_it_are_right_and_everything_lies_where_it_lay) {
  const auto worlds = world::local(3, device_kind::cpu);
  const exchange_case c = travelling();
  auto slots = make_on_one_stream(worlds, c);
  for (std::uint64_t turn = 0; turn < 4; ++turn) {
    EXPECT_EQ(run_rounds(c, slots, 100 * turn, static_cast<int>(turn) + 1), "") << "turn " << turn;
    std::vector<const void*> lay;
    for (auto& ranks : slots)
      for (auto& rank : ranks) lay.push_back(rank.received().tokens);
    release_all(worlds, slots);
    reacquire_all(worlds, slots);
    EXPECT_EQ(run_rounds(c, slots, 1000 + turn, 1), "");
    std::size_t i = 0;
    for (auto& ranks : slots)
      for (auto& rank : ranks) EXPECT_EQ(rank.received().tokens, lay[i++]);
  }
  for (auto& rank : slots[0]) EXPECT_NO_THROW(rank.ep().check());
}

TEST_P(exchange_release, calls_before_the_memory_is_back_are_refused) {
  const auto worlds = world::local(3, device_kind::cpu);
  const exchange_case c = travelling();
  auto slots = make_on_one_stream(worlds, c);
  EXPECT_EQ(run_rounds(c, slots, 1, 1), "");
  EXPECT_TRUE(says(message_of<invalid_argument>([&] { reacquire_all(worlds, slots); }),
                   "reacquire called on rank 0, which has"));
  release_all(worlds, slots);
  expert_parallel& ep = slots[0][1].ep();
  const char* const why = "while this communicator's memory is released; reacquire it first, on every rank";
  EXPECT_TRUE(says(message_of<invalid_argument>([&] { ep.dispatch({}); }), "dispatch called", why));
  EXPECT_TRUE(says(message_of<invalid_argument>([&] { ep.dispatch_async({.slot = 1}); }),
                   "dispatch_async called", why));
  EXPECT_TRUE(says(message_of<invalid_argument>([&] { ep.check(); }), "check called", why));
  EXPECT_TRUE(says(message_of<invalid_argument>([&] { release_all(worlds, slots); }), "release called", why));
  EXPECT_EQ(ep.config(), c.config);
  reacquire_all(worlds, slots);
  EXPECT_EQ(run_rounds(c, slots, 2, 2), "");
}

TEST_P(exchange_release, a_round_that_is_not_over_is_named_on_every_rank_and_goes_on) {
  const auto worlds = world::local(3, device_kind::cpu);
  const exchange_case c = travelling();
  auto slots = make_on_one_stream(worlds, c);
  const auto inputs = draw_inputs(c, 4);
  const expected_round round{c, inputs};
  for (std::size_t r = 0; r < 3; ++r) slots[1][r].load(inputs[r]);
  for (auto& rank : slots[1]) rank.dispatch_async();
  for (auto& rank : slots[1]) rank.dispatch_wait();
  std::vector<std::string> told(3);
  on_every_rank(worlds, [&](int r) {
    told[static_cast<std::size_t>(r)] =
        message_of<invalid_argument>([&] { slots[0][static_cast<std::size_t>(r)].ep().release(); });
  });
  for (std::size_t r = 0; r < 3; ++r)
    EXPECT_TRUE(says(told[r], fmt::format("release called on rank {}", r).c_str(),
                     "where combine_async of slot 1 is due: end the round first"))
        << told[r];
  for (std::size_t r = 0; r < 3; ++r) slots[1][r].reply(slots[1][r].read_received());
  for (auto& rank : slots[1]) rank.combine_wait();
  for (std::size_t r = 0; r < 3; ++r)
    EXPECT_EQ(difference(expected_output(round, static_cast<int>(r)), slots[1][r].read_output()), "");
}

TEST_P(exchange_release, waits_for_rounds_that_are_queued_on_any_stream) {
  const exchange_case c = travelling();
  if (c.config.rows == ep_rows::by_token) GTEST_SKIP() << "experts that return rows take them by expert";
  const auto worlds = world::local(3, device_kind::cpu);
  char names[2];
  std::array<std::array<char, 3>, 2> is_over{};
  auto slots = make_slots(worlds, c.config,
                          [&](int slot, int) { return stream_ref{&names[static_cast<std::size_t>(slot)]}; });
  std::vector<std::vector<rank_inputs>> inputs;
  for (std::size_t s = 0; s < 2; ++s) {
    inputs.push_back(draw_inputs(c, s));
    for (std::size_t r = 0; r < 3; ++r) {
      slots[s][r].load(inputs[s][r]);
      enqueue_identity_round(slots[s][r], calls::apart);
      fill_async(worlds[r], &is_over[s][r], 1, 1, {&names[s]});
    }
  }
  release_all(worlds, slots);
  for (const auto& of_slot : is_over) EXPECT_EQ(of_slot, (std::array<char, 3>{1, 1, 1}));
  for (std::size_t s = 0; s < 2; ++s)
    for (std::size_t r = 0; r < 3; ++r)
      EXPECT_EQ(difference(identity_output(c, inputs[s][r], static_cast<int>(r)), slots[s][r].read_output()),
                "");
}

TEST_P(exchange_release, of_a_communicator_that_lost_work_is_refused) {
  const exchange_case c = travelling();
  const auto worlds = simulated_worlds(3, {});
  auto slots = make_on_one_stream(worlds, c);
  for (const std::size_t r : {0, 2}) slots[0][r].dispatch_async();
  slots[0][0].dispatch_wait();
  EXPECT_THROW(worlds[0].synchronize(), stuck);
  EXPECT_TRUE(says(message_of<invalid_argument>([&] { release_all(worlds, slots); }),
                   "release called after work of rank 0 was lost"));
}

/// A value of /proc/self/status in bytes.
std::size_t own_status(const std::string& key) {
  std::ifstream in{"/proc/self/status"};
  std::string word;
  std::size_t kib = 0;
  while (in >> word)
    if (word == key + ":") in >> kib;
  return kib * 1024;
}

/// Tens of megabytes.
exchange_case large_case(travel how) {
  exchange_case c = travelling(how, {3, sizes(6, 2, 2048, 400), {5, 5, 5}, routing::distinct});
  c.config.num_slots = 2;
  return c;
}

TEST_P(exchange_release, the_machine_has_the_memory_in_between) {
  const auto worlds = world::local(3, device_kind::cpu);
  const exchange_case c = large_case(GetParam());
  auto slots = make_on_one_stream(worlds, c);
  EXPECT_EQ(run_rounds(c, slots, 1, 1), "");
  const auto part_of_all = [&] {
    double sum = 0;
    for (auto& ranks : slots) {
      for (auto& rank : ranks) {
        const received_tokens& rows = rank.received();
        sum += resident_part(rows.tokens, static_cast<std::size_t>(rows.max_token_rows) *
                                              static_cast<std::size_t>(rows.row_bytes));
      }
    }
    return sum / 6;
  };
  EXPECT_EQ(part_of_all(), 1);
  release_all(worlds, slots);
  EXPECT_EQ(part_of_all(), 0);
  reacquire_all(worlds, slots);
  EXPECT_EQ(part_of_all(), 1);
  EXPECT_EQ(run_rounds(c, slots, 2, 1), "");
}

/// Processes of three worlds' ranks, with a short deadline.
void in_three_processes(const std::function<bool(const world&)>& work,
                        const std::function<void(const std::vector<rank_result>&)>& look) {
  const std::string run = unique_name();
  look(in_processes({0, 1, 2}, [&](int rank) -> bool {
    ::setenv("BATON_DEADLINE_MS", "2000", 1);
    set_launch_environment(rank, 3, run);
    return work(world::from_environment(device_kind::cpu));
  }));
}

TEST_P(exchange_release, processes_give_back_what_they_share_and_share_it_again) {
  const exchange_case c = large_case(GetParam());
  in_three_processes(
      [&](const world& w) {
        exchange_rank mine{expert_parallel::create(w, c.config)};
        const auto right = [&](const std::string& wrong) {
          if (!wrong.empty()) throw std::runtime_error{wrong};
        };
        for (int turn = 0; turn < 2; ++turn) {
          right(run_rank(c, mine, 1 + turn));
          const void* const lay = mine.received().tokens;
          const std::size_t before = own_status("RssShmem");
          mine.ep().release();
          if (own_status("RssShmem") * 20 > before) throw std::runtime_error{"shared memory is still there"};
          mine.ep().reacquire();
          right(run_rank(c, mine, 1));
          if (mine.received().tokens != lay) throw std::runtime_error{"elsewhere"};
        }
        return true;
      },
      [](const std::vector<rank_result>& results) {
        for (const rank_result& r : results) EXPECT_EQ(r.exit_code, 0) << r.thrown;
      });
}

TEST(exchange_release_processes,
     a_rank_that_is_killed_or_late_when_memory_comes_back_is_named_to_the_others) {
  const exchange_case c = travelling(travel::in_lines, {3, sizes(6, 2, 64, 5), {5, 5, 5}, routing::distinct});
  for (const bool is_killed : {true, false}) {
    in_three_processes(
        [&](const world& w) {
          exchange_rank mine{expert_parallel::create(w, c.config)};
          run_rank(c, mine, 1);
          mine.ep().release();
          if (w.rank() == 1 && is_killed) ::kill(::getpid(), SIGKILL);
          if (w.rank() == 1) ::usleep(4'000'000);
          try {
            mine.ep().reacquire();
          } catch (const transport_error& e) {
            if (!says(message_of<invalid_argument>([&] { mine.ep().dispatch({}); }), "memory is released"))
              return false;
            throw;
          }
          return false;
        },
        [&](const std::vector<rank_result>& results) {
          for (const std::size_t r : {0, 2}) {
            EXPECT_EQ(results[r].exit_code, 2) << results[r].thrown;
            EXPECT_TRUE(says(results[r].thrown, "rank 1")) << results[r].thrown;
          }
          EXPECT_EQ(results[1].exit_code, is_killed ? 128 + SIGKILL : 2) << results[1].thrown;
        });
  }
}

}  // namespace
}  // namespace baton::test
