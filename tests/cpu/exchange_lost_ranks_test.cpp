// A rank that is lost at any point of a round, with ranks beyond the p2p group: whatever each survivor waits for, it names that
// one.
#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <random>

#include "baton/error.hpp"
#include "kernels/ep/lost_rank/kernel.hpp"
#include "protocol/lost_rank.hpp"
#include "sim/context.hpp"
#include "tests/support/exchange_in_groups.hpp"
#include "tests/support/killed_in_rounds.hpp"
#include "tests/support/simulated_worlds.hpp"
#include "tests/support/stuck_rounds.hpp"

namespace baton::test {
namespace {

class exchange_lost_ranks : public testing::TestWithParam<way_beyond> {};
INSTANTIATE_TEST_SUITE_P(cpu, exchange_lost_ranks, testing::ValuesIn(every_way_beyond),
                         [](const auto& way) { return way.param.name(); });

/// What survivors of a rank that dies at a step are told.
struct told_of_losses {
  std::map<std::string, int> sites;
  int unharmed = 0, in_turn = 0;

  void add(const stuck& e, int lost, const std::string& when) {
    EXPECT_EQ(e.where.peer, lost) << when << ": " << e.what();
    ++sites[e.where.site];
    in_turn += std::string{e.what()}.find("waited in turn") != std::string::npos ? 1 : 0;
  }
};

void run_without(int lost, std::uint64_t step, const exchange_case& c, told_of_losses& told) {
  sim::options options = late_puts(sim::schedule::random, step + 1);
  options.faults = {{sim::fault::kind::dies_at_step, lost, step}};
  auto ranks = make_ranks(simulated_worlds(c.ranks, options), c.config);
  const auto found = run_until_stuck(ranks, c, [&](int r, const stuck& e) {
    told.add(e, lost, fmt::format("rank {} dies at step {}, rank {}", lost, step, r));
  });
  for (int r = 0; r < c.ranks; ++r)
    told.unharmed += r != lost && found[static_cast<std::size_t>(r)].peer == -2 ? 1 : 0;
}

TEST_P(exchange_lost_ranks, that_die_at_any_step_are_named_by_every_survivor) {
  const exchange_case c = GetParam().of(case_of_eight_experts(4));
  told_of_losses told;
  for (std::uint64_t step = 0; step < 260; step += step < 80 ? 1 : 5)
    run_without(static_cast<int>(step % 4), step, c, told);
  EXPECT_GT(told.unharmed, 0);
  if (GetParam().layout == ep_layout::per_rank) {
    EXPECT_GT(told.in_turn, 0) << "nobody waited for a survivor";
  }
  for (const auto& [site, times] : told.sites) RecordProperty(site, times);
  RecordProperty("waited_for_a_survivor", told.in_turn);
}

TEST_P(exchange_lost_ranks, of_processes_that_are_killed_in_a_round_are_named_by_every_survivor) {
  const way_beyond& way = GetParam();
  const exchange_case c = way.of({4, sizes(8, 6, 64, 5), {5, 5, 5, 5}, routing::distinct});
  expect_the_killed_named_in_rounds(c, device_kind::cpu, 1, std::chrono::milliseconds{20 + 3 * way.group});
}

/// Whom the network loses, and stores of its group still reach: its neighbours hear that it waits for a rank beyond, which waits
/// for it. Where some rank has all it waits for, and tells nothing, such a circle is taken for that one's: those are left out.
TEST_P(exchange_lost_ranks, whose_network_alone_is_gone_are_named_by_every_survivor) {
  const exchange_case c = GetParam().of(case_of_eight_experts(4));
  int by_all = 0, in_turn = 0;
  for (std::uint64_t step = 0; step < 120; ++step) {
    const int lost = static_cast<int>(step % 4);
    sim::options options = late_puts(sim::schedule::random, step + 1);
    options.faults = {{sim::fault::kind::is_cut_off, lost, step / 4 * 3}};
    auto ranks = make_ranks(simulated_worlds(4, options), c.config);
    std::array<int, 4> named{};
    const auto found = run_until_stuck(ranks, c, [&](int r, const stuck& e) {
      in_turn += std::string{e.what()}.find("waited in turn") != std::string::npos ? 1 : 0;
      if (r != lost) named[static_cast<std::size_t>(r)] = e.where.peer == lost ? 1 : -1;
    });
    if (std::count(named.begin(), named.end(), 0) != 1) continue;
    ++by_all;
    EXPECT_EQ(std::count(named.begin(), named.end(), 1), 3)
        << "rank " << lost << " is cut off at step " << step / 4 * 3;
  }
  EXPECT_GT(by_all, 0);
  RecordProperty("named_by_all", by_all);
  RecordProperty("waited_for_a_survivor", in_turn);
}

/// Each rank's tokens go to one other rank, or, -1, to nobody; of four experts each rank has one.
std::vector<rank_inputs> tokens_that_go(const exchange_case& c, const std::array<std::int32_t, 4>& to) {
  auto inputs = draw_inputs(c, 1);
  for (std::size_t r = 0; r < inputs.size(); ++r)
    std::fill(inputs[r].topk_idx.begin(), inputs[r].topk_idx.end(), to[r]);
  return inputs;
}

/// Of groups {0, 1} and {2, 3}, whose tokens go 1 to 3, 3 to 0 and 0 to 3: when the network of rank 3 goes behind its ids, rank 2
/// waits a deadline, at last for rank 0, which waits two for who forwards rank 3's tokens, and is alive.
TEST(words_of_lost_ranks, leave_time_to_who_waits_two_deadlines_for_a_forwarder) {
  const exchange_case c = way_beyond{ep_layout::per_rank, ep_levels::two, 2}.of(
      {4, sizes(4, 1, 64, 6), {6, 6, 6, 6}, routing::distinct});
  const auto inputs = tokens_that_go(c, {3, 3, -1, 0});
  int waited_two = 0;
  for (std::uint64_t step = 0; step < 400; step += 2) {
    sim::options options = late_puts(sim::schedule::random, 1 + step % 5);
    options.faults = {{sim::fault::kind::is_cut_off, 3, step}};
    auto ranks = make_ranks(simulated_worlds(4, options), c.config);
    run_until_stuck(ranks, c, inputs, [&](int r, const stuck& e) {
      if (r == 3) return;
      EXPECT_EQ(e.where.peer, 3) << "cut off at step " << step << ", rank " << r << ": " << e.what();
      waited_two += std::string{e.what()}.find("waited 60.0 s") != std::string::npos ? 1 : 0;
    });
  }
  EXPECT_GT(waited_two, 0) << "nobody waited for a forwarder";
  RecordProperty("waited_two_deadlines", waited_two);
}

/// All survivors hear of each other as soon as the last has given up.
TEST_P(exchange_lost_ranks, that_never_come_are_named_without_waiting_longer) {
  const exchange_case c = GetParam().of(case_of_eight_experts(4));
  sim::options options;
  options.faults = {{sim::fault::kind::never_launches, 2}};
  const auto worlds = simulated_worlds(4, options);
  auto ranks = make_ranks(worlds, c.config);
  const auto found = run_until_stuck(ranks, c);
  for (const std::size_t r : {0, 1, 3}) EXPECT_EQ(found[r].peer, 2);
  const bool has_two_levels = GetParam().levels == ep_levels::two;  // some wait two deadlines
  EXPECT_LT(worlds.front().state().machine->now_ns(), has_two_levels ? 100'000'000'000u : 40'000'000'000u);
}

/// Two are lost, and each survivor names one of them. Of those two one may have given up before it dies, and hear no more.
TEST_P(exchange_lost_ranks, of_which_there_are_two_are_not_taken_for_survivors) {
  const exchange_case c = GetParam().of(case_of_eight_experts(4));
  for (std::uint64_t step = 0; step < 240; step += 20) {
    sim::options options = late_puts(sim::schedule::random, step + 1);
    options.faults = {{sim::fault::kind::dies_at_step, 1, step}, {sim::fault::kind::dies_at_step, 2, step}};
    auto ranks = make_ranks(simulated_worlds(4, options), c.config);
    run_until_stuck(ranks, c, [&](int r, const stuck& e) {
      if (r == 1 || r == 2) return;
      EXPECT_TRUE(e.where.peer == 1 || e.where.peer == 2)
          << "step " << step << ", rank " << r << ": " << e.what();
    });
  }
}

/// What rank 0 has signalled rank 1 beside words of puts' own, as layout per_rank has no other: for whom it waited.
std::uint64_t words_beside_puts(const world& of_rank_0) {
  const sim::network_traffic sent = of_rank_0.state().machine->sent_through_network(0, 1);
  return sent.signals - sent.puts;
}

/// Of two ranks apart, behind a whole dispatch of both if `call` combines: how many words rank 0 told when `call` of it gave up,
/// while rank 1 does nothing.
std::uint64_t told_when_stuck_in(bool combines, bool bf16_output,
                                 const std::function<void(exchange_rank&)>& call) {
  const exchange_case c = way_beyond{ep_layout::per_rank, ep_levels::one, 1}.of(case_of_eight_experts(2));
  const auto worlds = simulated_worlds(2, {});
  auto ranks = make_ranks(worlds, c.config);
  const auto inputs = draw_inputs(c, 1);
  for (std::size_t r = 0; r < 2; ++r) {
    ranks[r].options.bf16_output = bf16_output;
    ranks[r].load(inputs[r]);
    if (combines) ranks[r].dispatch_async();
  }
  if (combines) {
    for (exchange_rank& r : ranks) r.dispatch_wait();
    for (exchange_rank& r : ranks) r.ranks().synchronize();
  }
  EXPECT_EQ(words_beside_puts(worlds[0]), 0u);
  call(ranks[0]);
  EXPECT_THROW(worlds[0].synchronize(), stuck);
  return words_beside_puts(worlds[0]);
}

TEST(words_of_lost_ranks, are_told_behind_every_call_that_waits) {
  const auto rows = [](exchange_rank& r) { return static_cast<const bfloat16*>(r.received().tokens); };
  EXPECT_EQ(told_when_stuck_in(false, false, [](exchange_rank& r) { r.dispatch(); }), 1u);
  EXPECT_EQ(told_when_stuck_in(false, false,
                               [](exchange_rank& r) {
                                 r.dispatch_async();
                                 r.dispatch_wait();
                               }),
            1u);
  for (const bool to_bf16 : {false, true}) {
    EXPECT_EQ(told_when_stuck_in(true, to_bf16, [&](exchange_rank& r) { r.combine(rows(r)); }), 1u)
        << to_bf16;
    EXPECT_EQ(told_when_stuck_in(true, to_bf16,
                                 [&](exchange_rank& r) {
                                   r.combine_async(rows(r));
                                   r.combine_wait();
                                 }),
              1u)
        << to_bf16;
  }
}

/// A word as nobody writes it, or as ranks that wait in circles do.
std::uint64_t any_word(std::mt19937_64& random, int num_ranks) {
  const auto rank = static_cast<std::uint32_t>(random() % static_cast<std::uint64_t>(num_ranks));
  const std::uint64_t right = epoch_arrival::word(1, rank), bit = std::uint64_t{1} << random() % 64;
  const std::array<std::uint64_t, 6> words{
      0,           random(),
      right,       epoch_arrival::word(1, static_cast<std::uint32_t>(num_ranks) + rank % 3),
      right ^ bit, epoch_arrival::word(2, rank)};
  return words[random() % words.size()];
}

TEST(words_of_lost_ranks, name_a_rank_that_there_is_or_none_whatever_they_say) {
  std::mt19937_64 random{7};
  for (int times = 0; times < 5000; ++times) {
    const int num_ranks = 2 + times % 7, rank = times % num_ranks, waited_for = (rank + 1) % num_ranks;
    std::array<std::array<std::uint64_t, 8>, 8> of_ranks{};
    loss_words words{{{}, p2p_group::of(rank, 1 + times % num_ranks, num_ranks)}, rank, num_ranks};
    for (std::size_t r = 0; r < of_ranks.size(); ++r) {
      std::generate(of_ranks[r].begin(), of_ranks[r].begin() + num_ranks,
                    [&] { return any_word(random, num_ranks); });
      words.of_ranks.of_rank[r] = of_ranks[r].data();
    }
    int named = -1;
    sim::machine m{num_ranks, {}};
    m.launch(rank, {.limits = {.deadline_ns = 1000}}, [&](sim::context& x) {
      const int found = find_lost(x, words, waited_for, {.slices = 4, .for_silent = 1});
      x.elect([&] { named = found; });
    });
    m.run(rank);
    EXPECT_TRUE(named >= 0 && named < num_ranks) << named << " of " << num_ranks << ", time " << times;
    for (const auto& row : of_ranks)
      EXPECT_TRUE(std::all_of(row.begin() + num_ranks, row.end(), [](std::uint64_t w) { return w == 0; }));
  }
}

/// Rank 0 waited for rank 1, which refused what it found; rank 2 goes on, and tells nothing.
TEST(words_of_lost_ranks, who_refused_is_named_at_once) {
  std::array<std::array<std::uint64_t, 3>, 3> of_ranks{};
  of_ranks[0][1] = epoch_arrival::word(1, 1);
  loss_words words{{{}, p2p_group::of(0, 3, 3)}, 0, 3};
  for (std::size_t r = 0; r < 3; ++r) words.of_ranks.of_rank[r] = of_ranks[r].data();
  sim::machine m{3, {}};
  int named = -1;
  m.launch(0, {.limits = {.deadline_ns = 1000}}, [&](sim::context& x) {
    const int found = find_lost(x, words, 1, {.slices = 16, .for_silent = 9});
    x.elect([&] { named = found; });
  });
  m.run(0);
  EXPECT_EQ(named, 1);
  EXPECT_LT(m.now_ns(), 1000u);
}

/// Until three deadlines after a wait began, however long it was.
TEST(words_of_lost_ranks, are_awaited_until_the_third_deadline) {
  using ep::lost_rank::hearing_after;
  constexpr int a_deadline = ep::lost_rank::slices_of_deadline;
  for (const bool two_levels : {false, true}) {
    EXPECT_EQ(hearing_after(1000, 1000, two_levels).slices, 2 * a_deadline);
    EXPECT_EQ(hearing_after(1999, 1000, two_levels).slices, 2 * a_deadline);
    EXPECT_EQ(hearing_after(2000, 1000, two_levels).slices, a_deadline);
    EXPECT_EQ(hearing_after(999, 1000, two_levels).slices, 0) << "the host ended it";
    EXPECT_EQ(hearing_after(5000, 0, two_levels).slices, 0) << "no deadline";
    EXPECT_EQ(hearing_after(2000, 1000, two_levels).for_silent, 1) << "nobody waits longer than this one";
  }
  EXPECT_EQ(hearing_after(1000, 1000, false).for_silent, 1);
  EXPECT_EQ(hearing_after(1000, 1000, true).for_silent, a_deadline + 1);
}

/// A rank's signals, in their order.
class signals_noted : public sim::context {
 public:
  signals_noted(const sim::context& x, std::vector<int>& to) : sim::context{x}, to_{&to} {}
  void signal(int to, std::uint64_t*, std::uint64_t) { to_->push_back(to); }

 private:
  std::vector<int>* to_;
};

/// A network that has no room for what is meant for the dead holds up no word for others.
TEST(words_of_lost_ranks, go_last_to_who_was_waited_for) {
  for (const int waited_for : {1, 2, 3}) {
    std::array<std::uint64_t, 4> own{};
    loss_words words{{{}, p2p_group::of(0, 1, 4)}, 0, 4};
    for (auto& of_rank : words.of_ranks.of_rank) of_rank = own.data();
    sim::machine m{4, {}};
    std::vector<int> to;
    m.launch(0, {.limits = {.deadline_ns = 1000}}, [&](const sim::context& x) {
      signals_noted mine{x, to};
      find_lost(mine, words, waited_for, {.slices = 0, .for_silent = 1});
    });
    m.run(0);
    EXPECT_EQ(to.size(), 3u);
    EXPECT_EQ(to.back(), waited_for);
  }
}

/// Whom a rank of two names in its record, that had `claimed` before.
std::uint32_t claimed_after(std::uint64_t waited_ns, std::int16_t peer) {
  constexpr std::uint32_t before = 7;
  std::array<std::array<std::uint64_t, 2>, 2> of_ranks{};
  stuck_record record{};
  record.complete = 1;
  record.claimed = before;
  record.waited_ns = waited_ns;
  record.peer = peer;
  ep::lost_rank::params p{{{{}, p2p_group::of(0, 1, 2)}, 0, 2}, &record, 1000};
  for (std::size_t r = 0; r < 2; ++r) p.words.of_ranks.of_rank[r] = of_ranks[r].data();
  sim::machine m{2, {}};
  m.launch(0, {.limits = {.deadline_ns = 125}}, [&](sim::context& x) { ep::lost_rank::kernel::run(x, p); });
  m.run(0);
  return record.claimed == before ? 0 : record.claimed;
}

TEST(words_of_lost_ranks, are_of_no_use_to_who_refused_what_it_found) {
  EXPECT_EQ(claimed_after(1000, 1), stuck_record::lost_is + 1);
  EXPECT_EQ(claimed_after(0, 1), 0u) << "it refused what rank 1 sent";
  EXPECT_EQ(claimed_after(1000, -1), 0u) << "it waited for its own warps";
}

}  // namespace
}  // namespace baton::test
