// Several rounds in flight at once on one communicator, each in a slot of its own.
#include <algorithm>
#include <array>
#include <functional>
#include <random>

#include "baton/error.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/exchange_cases.hpp"
#include "tests/support/identity_experts.hpp"
#include "tests/support/simulated_worlds.hpp"

namespace baton::test {
namespace {

using slots_of_ranks = std::vector<std::vector<exchange_rank>>;

class exchange_slots : public testing::TestWithParam<travel> {
 protected:
  static exchange_case travelling(int num_slots, token_format format = token_format::bf16) {
    exchange_case c =
        test::travelling(GetParam(), {3, sizes(11, 3, 64, 9), {9, 4, 0}, routing::sparse}, format);
    c.config.num_slots = num_slots;
    return c;
  }
  /// A stream for each slot of a rank; or the same for all.
  slots_of_ranks make(std::span<const world> worlds, const exchange_case& c, bool apart) {
    return make_slots(worlds, c.config, [&](int slot, int) {
      return stream_ref{apart ? &streams_[static_cast<std::size_t>(slot)] : nullptr};
    });
  }

 private:
  std::array<char, 8> streams_{};
};

INSTANTIATE_TEST_SUITE_P(cpu, exchange_slots, testing::ValuesIn(every_travel),
                         [](const auto& how) { return name(how.param); });

/// A slot's rounds, a step of all ranks at a time: dispatch_async, dispatch_wait, experts and combine_async, combine_wait, and
/// what came of it. Between steps other slots take theirs.
class stepped_slot {
 public:
  stepped_slot(const exchange_case& c, std::vector<exchange_rank>& ranks, std::uint64_t first_seed)
      : c_{c}, ranks_{ranks}, seed_{first_seed} {}

  /// Empty if what the step looks at is right. Ranks go in an order that `random` says.
  std::string step(std::mt19937_64& random) {
    std::vector<std::size_t> order(ranks_.size());
    for (std::size_t r = 0; r < order.size(); ++r) order[r] = r;
    std::shuffle(order.begin(), order.end(), random);
    if (next_ == 0) begin();
    std::string wrong;
    for (const std::size_t r : order)
      if (const std::string found = step_of(r); !found.empty())
        wrong = fmt::format("seed {}, step {}, rank {}: {}", seed_, next_, r, found);
    next_ = (next_ + 1) % num_steps;
    rounds_ += next_ == 0 ? 1 : 0;
    return wrong;
  }
  int rounds() const { return rounds_; }
  /// Ends the round, so that nothing is queued that uses what goes with this.
  std::string finish(std::mt19937_64& random) {
    while (next_ != 0)
      if (const std::string wrong = step(random); !wrong.empty()) return wrong;
    return {};
  }

 private:
  static constexpr int num_steps = 6;

  void begin() {
    ++seed_;
    inputs_ = draw_inputs(c_, seed_);
    expected_.emplace(c_, inputs_);
    got_.resize(ranks_.size());
  }
  std::string step_of(std::size_t r) {
    exchange_rank& rank = ranks_[r];
    const int number = static_cast<int>(r);
    switch (next_) {
      case 0:
        rank.load(inputs_[r]);
        rank.dispatch_async();
        return {};
      case 1:
        rank.dispatch_wait();
        return {};
      case 2:
        got_[r] = rank.read_received();
        return difference(*expected_, number, got_[r]);
      case 3:
        rank.reply(got_[r]);
        return {};
      case 4:
        rank.combine_wait();
        return {};
      default:
        return difference(expected_output(*expected_, number), rank.read_output());
    }
  }

  const exchange_case& c_;
  std::vector<exchange_rank>& ranks_;
  std::uint64_t seed_;
  std::vector<rank_inputs> inputs_;
  std::optional<expected_round> expected_;
  std::vector<received_copy> got_;
  int next_ = 0, rounds_ = 0;
};

/// Rounds of all slots, a step of a slot that the seed draws at a time. Empty if all is right.
std::string run_interleaved(const exchange_case& c, slots_of_ranks& slots, std::uint64_t seed, int steps) {
  std::vector<stepped_slot> stepped;
  for (std::size_t s = 0; s < slots.size(); ++s) stepped.emplace_back(c, slots[s], 1000 * s + 100 * seed);
  std::mt19937_64 random{seed};
  for (int i = 0; i < steps; ++i) {
    const std::size_t s = random() % stepped.size();
    if (const std::string wrong = stepped[s].step(random); !wrong.empty())
      return fmt::format("order {}, slot {}: {}", seed, s, wrong);
  }
  for (stepped_slot& s : stepped) {
    if (s.rounds() == 0) return fmt::format("order {} never ends a round of some slot", seed);
    if (const std::string wrong = s.finish(random); !wrong.empty())
      return fmt::format("order {}: {}", seed, wrong);
  }
  return {};
}

TEST_P(exchange_slots, rounds_interleaved_in_many_orders_on_one_stream_are_right_to_the_bit) {
  const auto worlds = world::local(3, device_kind::cpu);
  for (const int num_slots : {2, 3, 8}) {
    const exchange_case c = travelling(num_slots, token_format::blockwise_fp8);
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      auto slots = make(worlds, c, false);
      EXPECT_EQ(run_interleaved(c, slots, seed, 30 * num_slots), "") << num_slots << " slots";
    }
  }
}

TEST_P(exchange_slots, rounds_on_streams_of_their_own_are_right_to_the_bit_under_every_schedule) {
  const exchange_case c = travelling(3);
  for (const sim::schedule order : {sim::schedule::random, sim::schedule::priority}) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      const auto worlds =
          simulated_worlds(3, {.order = order, .seed = seed, .delay_stores = true, .faults = {}});
      auto slots = make(worlds, c, true);
      EXPECT_EQ(run_interleaved(c, slots, seed, 60), "");
    }
  }
}

TEST_P(exchange_slots, ranks_may_enqueue_the_slots_in_different_orders_on_streams_of_their_own) {
  const exchange_case c = travelling(3);
  if (c.config.rows == ep_rows::by_token) GTEST_SKIP() << "experts that return rows take them by expert";
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto worlds = simulated_worlds(
        3, {.order = sim::schedule::random, .seed = seed, .delay_stores = true, .faults = {}});
    auto slots = make(worlds, c, true);
    std::vector<std::vector<rank_inputs>> inputs;
    for (std::size_t s = 0; s < slots.size(); ++s) inputs.push_back(draw_inputs(c, 10 * seed + s));
    for (std::size_t r = 0; r < worlds.size(); ++r) {
      for (std::size_t i = 0; i < slots.size(); ++i) {
        const std::size_t s = (i + r) % slots.size();
        slots[s][r].load(inputs[s][r]);
        enqueue_identity_round(slots[s][r], (seed + s) % 2 == 0 ? calls::fused : calls::apart);
      }
    }
    for (std::size_t s = 0; s < slots.size(); ++s)
      for (std::size_t r = 0; r < worlds.size(); ++r)
        EXPECT_EQ(
            difference(identity_output(c, inputs[s][r], static_cast<int>(r)), slots[s][r].read_output()), "")
            << "seed " << seed << ", slot " << s << ", rank " << r;
  }
}

TEST_P(exchange_slots, what_a_slot_received_stays_while_other_slots_have_rounds) {
  const auto worlds = world::local(3, device_kind::cpu);
  const exchange_case c = travelling(2);
  auto slots = make(worlds, c, false);
  const auto inputs = draw_inputs(c, 7);
  const expected_round round{c, inputs};
  for (std::size_t r = 0; r < 3; ++r) slots[1][r].load(inputs[r]);
  for (auto& rank : slots[1]) rank.dispatch();
  for (std::uint64_t seed = 1; seed <= 4; ++seed)
    EXPECT_EQ(run_round(c, slots[0], seed, seed % 2 == 0 ? calls::fused : calls::apart), "");
  std::vector<received_copy> got;
  for (auto& rank : slots[1]) got.push_back(rank.read_received());
  for (std::size_t r = 0; r < 3; ++r) {
    EXPECT_EQ(difference(round, static_cast<int>(r), got[r]), "");
    slots[1][r].apply_experts(got[r]);
  }
  for (auto& rank : slots[1]) rank.combine();
  for (std::size_t r = 0; r < 3; ++r)
    EXPECT_EQ(difference(expected_output(round, static_cast<int>(r)), slots[1][r].read_output()), "");
}

/// As an engine overlaps two batches: while a batch's tokens travel, the other one's experts work, in every layer. Nothing is
/// made for a layer: all of them share the communicator.
TEST_P(exchange_slots, sixty_layers_of_two_overlapping_batches_share_one_communicator) {
  const auto worlds = world::local(3, device_kind::cpu);
  const exchange_case c = travelling(2);
  auto slots = make(worlds, c, true);
  std::vector<stepped_slot> batches{{c, slots[0], 0}, {c, slots[1], 100}};
  std::mt19937_64 random{1};
  const auto steps = [&](std::size_t batch, int count) {
    for (int i = 0; i < count; ++i) EXPECT_EQ(batches[batch].step(random), "") << "batch " << batch;
  };
  steps(0, 1);  // is on its way
  while (batches[1].rounds() < 60) {
    steps(1, 1);
    steps(0, 3);  // experts of the one, dispatch of the other
    steps(1, 3);
    steps(0, 3);  // the next layer's dispatch, before the other's combine has been waited for
    steps(1, 2);
  }
  EXPECT_EQ(batches[0].rounds(), 60);
  EXPECT_EQ(batches[0].finish(random), "");
}

/// A rank's part of a round of `layer` as a communicator of `all` takes it, which has more experts and choices.
rank_inputs padded(const exchange_case& all, const exchange_case& layer, const rank_inputs& in) {
  rank_inputs out = in;
  out.topk_idx.clear();
  out.topk_weights.clear();
  const auto first = [](const exchange_case& c, int rank) {
    return experts_of_rank(c.config.num_experts, c.ranks, rank).first;
  };
  for (int t = 0; t < in.num_tokens; ++t) {
    for (int k = 0; k < all.config.top_k; ++k) {
      const auto i = static_cast<std::size_t>(t * layer.config.top_k + k);
      const int id = k < layer.config.top_k ? in.topk_idx[i] : -1;
      const int home = id < 0 ? 0 : rank_of_expert(layer, id);
      out.topk_idx.push_back(id < 0 ? -1 : id - first(layer, home) + first(all, home));
      out.topk_weights.push_back(k < layer.config.top_k ? in.topk_weights[i] : 0.0f);
    }
  }
  return out;
}

TEST_P(exchange_slots, a_layer_with_fewer_experts_and_choices_takes_part_with_ids_that_are_padded) {
  const exchange_case c = travelling(2);
  if (c.config.rows == ep_rows::by_token) GTEST_SKIP() << "experts that return rows take them by expert";
  exchange_case layer = c;
  layer.config.num_experts = 4;
  layer.config.top_k = 2;
  layer.ids = routing::distinct;
  auto slots = make(world::local(3, device_kind::cpu), c, false);
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    EXPECT_EQ(run_round(c, slots[0], seed, calls::fused), "");  // the other layers
    const auto inputs = draw_inputs(layer, seed);
    for (std::size_t r = 0; r < 3; ++r) slots[0][r].load(padded(c, layer, inputs[r]));
    for (auto& rank : slots[0]) rank.dispatch();
    for (auto& rank : slots[0]) rank.combine(static_cast<const bfloat16*>(rank.received().tokens));
    for (std::size_t r = 0; r < 3; ++r)
      EXPECT_EQ(difference(identity_output(layer, inputs[r], static_cast<int>(r)), slots[0][r].read_output()),
                "")
          << "seed " << seed;
  }
}

TEST_P(exchange_slots, a_rank_that_does_not_come_in_a_slot_is_named_with_it_and_all_slots_are_lost) {
  const exchange_case c = travelling(3);
  const auto worlds = simulated_worlds(3, {});
  auto slots = make(worlds, c, true);
  EXPECT_EQ(run_round(c, slots[0], 1), "");
  const auto inputs = draw_inputs(c, 2);
  for (std::size_t r = 0; r < 3; ++r) {
    slots[2][r].load(inputs[r]);
    slots[1][r].load(inputs[r]);
    slots[1][r].dispatch_async();
    if (r != 1) slots[2][r].dispatch_async();
  }
  for (auto& rank : slots[1]) rank.dispatch_wait();
  slots[2][0].dispatch_wait();
  try {
    slots[2][0].read_received();
    FAIL() << "nobody is missed";
  } catch (const stuck& e) {
    EXPECT_EQ(e.where.slot, 2);
    EXPECT_EQ(e.where.peer, 1);
    EXPECT_EQ(e.where.epoch, 1u);
    EXPECT_TRUE(says(e.what(), "for rank 1, round 1 of slot 2")) << e.what();
  }
  for (auto& of_slot : slots)
    EXPECT_THROW(of_slot[0].ep().dispatch({}), invalid_argument) << "a communicator that lost work goes on";
}

/// Dispatches of two slots on streams of their own, on GPUs with room for three blocks: rank 0 begins with slot 0's, rank 1 with
/// slot 1's. Empty if all is right, or what is stuck.
std::string run_in_little_room(const exchange_case& c, int blocks_of_call, std::uint64_t seed) {
  std::array<char, 2> streams{};
  const auto worlds = simulated_worlds(
      2, {.order = sim::schedule::random, .seed = seed, .delay_stores = true, .max_blocks = 3, .faults = {}});
  auto slots = make_slots(
      worlds, c.config, [&](int slot, int) { return stream_ref{&streams[static_cast<std::size_t>(slot)]}; });
  const auto inputs = draw_inputs(c, seed);
  for (const std::size_t i : {0, 1}) {
    for (const std::size_t r : {0, 1}) {
      exchange_rank& rank = slots[(i + r) % 2][r];
      rank.options.dispatch_sms = rank.options.combine_sms = blocks_of_call;
      rank.load(inputs[r]);
      enqueue_identity_round(rank, calls::fused);
    }
  }
  try {
    for (auto& ranks : slots)
      for (const std::size_t r : {0, 1})
        if (const std::string wrong =
                difference(identity_output(c, inputs[r], static_cast<int>(r)), ranks[r].read_output());
            !wrong.empty())
          return wrong;
  } catch (const stuck& e) {
    return e.what();
  }
  return {};
}

/// Sizes whose kernels have three blocks and more, if they may.
TEST_P(exchange_slots,
       kernels_that_find_room_beside_each_other_never_wait_for_each_other_and_others_are_named) {
  exchange_case c = travelling(2);
  if (c.config.rows == ep_rows::by_token) GTEST_SKIP() << "experts that return rows take them by expert";
  c.ranks = 2;
  c.tokens = {9, 9};
  c.config.num_sms = 3;
  int stuck_runs = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    EXPECT_EQ(run_in_little_room(c, 1, seed), "");
    const std::string wrong = run_in_little_room(c, 3, seed);
    if (wrong.empty()) continue;
    EXPECT_TRUE(says(wrong, " of slot ")) << wrong;
    ++stuck_runs;
  }
  EXPECT_GT(stuck_runs, 0) << "the machine has room for all of them: nothing is tested";
}

TEST_P(exchange_slots, rounds_out_of_order_are_refused_in_their_slot_alone) {
  exchange_case c = travelling(2);
  c.ranks = 1;
  const auto worlds = world::local(1, device_kind::cpu);
  expert_parallel ep = std::move(expert_parallel::create_all(worlds, c.config)[0]);
  const auto refused = [](const std::function<void()>& call) -> std::string {
    try {
      call();
    } catch (const invalid_argument& e) {
      return e.what();
    }
    return "not refused";
  };
  ep.dispatch_async({.slot = 1});
  EXPECT_TRUE(says(refused([&] { ep.dispatch_async({.slot = 1}); }),
                   "dispatch_async called where dispatch_wait of slot 1 is due"));
  EXPECT_TRUE(
      says(refused([&] { ep.dispatch_wait(); }), "dispatch_wait called where dispatch_async of slot 0"));
  ep.dispatch({.slot = 0});
  const received_tokens rows = ep.dispatch_wait({}, 1);
  EXPECT_EQ(rows.hidden, c.config.hidden);
  const std::string out_of_range =
      "slot: 2 is outside [0, 2); num_slots says how many a communicator is created with";
  alignas(16) const std::array<bfloat16, 8> some{};
  EXPECT_EQ(refused([&] { ep.dispatch({.slot = 2}); }), out_of_range);
  EXPECT_EQ(refused([&] { ep.dispatch_wait({}, 2); }), out_of_range);
  EXPECT_EQ(refused([&] { ep.combine_async({.expert_output = some.data(), .slot = 2}); }), out_of_range);
  EXPECT_EQ(refused([&] { ep.combine_wait(nullptr, static_cast<float*>(nullptr), {}, 2); }), out_of_range);
  EXPECT_TRUE(says(refused([&] { ep.dispatch({.slot = -1}); }), "slot: -1 is outside [0, 2)"));
  worlds[0].synchronize();
}

TEST_P(exchange_slots, bad_ids_are_reported_with_their_slot) {
  exchange_case c = travelling(3);
  const auto worlds = world::local(3, device_kind::cpu);
  auto slots = make(worlds, c, false);
  auto inputs = draw_inputs(c, 3);
  inputs[1].topk_idx[4] = 77;
  for (std::size_t r = 0; r < 3; ++r) slots[2][r].load(inputs[r]);
  for (auto& rank : slots[2]) rank.dispatch();
  for (auto& rank : slots[2]) rank.apply_experts(rank.read_received());
  for (auto& rank : slots[2]) rank.combine();
  for (auto& rank : slots[2]) rank.read_output();
  EXPECT_NO_THROW(slots[0][0].ep().check());
  try {
    slots[0][1].ep().check();
    FAIL() << "77 is not reported";
  } catch (const device_error& e) {
    EXPECT_TRUE(says(e.what(), "rank 1, slot 2, token 1, choice 1 is 77")) << e.what();
  }
  EXPECT_NO_THROW(slots[0][1].ep().check());
}

TEST_P(exchange_slots, take_as_many_bytes_as_there_are_of_them) {
  const exchange_case one = travelling(1);
  const workspace_size each = workspace_bytes(one.config, 3);
  constexpr std::size_t meeting_window = 128, meeting_local = 64;  // words in which members meet, once
  for (const int num_slots : {2, 3, 8}) {
    const workspace_size all = workspace_bytes(travelling(num_slots).config, 3);
    const auto slots = static_cast<std::size_t>(num_slots);
    EXPECT_EQ(all.window, slots * (each.window - meeting_window) + meeting_window);
    EXPECT_EQ(all.local, slots * (each.local - meeting_local) + meeting_local);
  }
}

}  // namespace
}  // namespace baton::test
