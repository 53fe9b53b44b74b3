// What shared experts made of a rank's tokens, which combine adds: last, once, the token's own row, however sums travel.
#include <array>
#include <functional>

#include "baton/error.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/identity_experts.hpp"
#include "tests/support/shared_cases.hpp"

namespace baton::test {
namespace {

class exchange_shared : public testing::TestWithParam<travel> {
 protected:
  static exchange_case shared(exchange_case c, token_format format = token_format::bf16) {
    c.shared_experts = true;
    return test::travelling(GetParam(), std::move(c), format);
  }
  static const std::vector<world>& worlds() {
    static const auto three = world::local(3, device_kind::cpu);
    return three;
  }
};

INSTANTIATE_TEST_SUITE_P(cpu, exchange_shared, testing::ValuesIn(every_travel),
                         [](const auto& how) { return name(how.param); });

TEST_P(exchange_shared, is_the_last_addend_of_every_token_in_every_form_and_output) {
  for (const named_case& c : shared_cases(3))
    for (const token_format format : {token_format::bf16, token_format::blockwise_fp8}) {
      SCOPED_TRACE(c.name);
      expect_shared_rounds(worlds(), shared(c.what, format));
    }
}

TEST_P(exchange_shared, is_the_last_addend_where_one_rank_has_more_rows_than_are_added_at_once) {
  const auto one = world::local(1, device_kind::cpu);
  for (const int top_k : {7, 8, 9, 31, 32})
    expect_shared_rounds(one, shared({1, sizes(64, top_k, 264, 5), {5}, routing::distinct}));
}

TEST_P(exchange_shared, of_a_token_without_experts_is_what_comes_out) {
  const exchange_case c = shared({3, sizes(11, 3, 64, 9), {9, 4, 0}, routing::sparse});
  auto ranks = make_ranks(worlds(), c.config);
  auto inputs = draw_inputs(c, 1);
  for (rank_inputs& in : inputs) std::fill(in.topk_idx.begin(), in.topk_idx.end(), -1);
  for (const calls how : {calls::fused, calls::apart}) {
    ASSERT_EQ(run_round(expected_round{c, inputs}, ranks, how), "");
    const std::vector<float> got = ranks[0].read_output();
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_EQ(got[i], static_cast<float>(inputs[0].shared_output[i])) << i;
  }
}

TEST_P(exchange_shared, is_each_rounds_and_each_ranks_own_matter) {
  exchange_case c = shared({3, sizes(11, 3, 64, 9), {9, 4, 2}, routing::sparse});
  auto ranks = make_ranks(worlds(), c.config);
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    auto inputs = draw_inputs(c, seed);
    for (std::size_t r = 0; r < inputs.size(); ++r)
      if (seed >> r & 1) inputs[r].shared_output.clear();
    const calls how = seed % 3 == 0 ? calls::fused : calls::apart;
    EXPECT_EQ(run_round(expected_round{c, inputs}, ranks, how), "") << seed;
  }
}

TEST_P(exchange_shared, may_be_computed_between_combine_async_and_combine_wait) {
  const exchange_case c = shared({3, sizes(11, 3, 64, 9), {9, 4, 2}, routing::sparse});
  auto ranks = make_ranks(worlds(), c.config);
  const auto inputs = draw_inputs(c, 1);
  std::vector<std::vector<bfloat16>> nothing_yet;
  for (const rank_inputs& in : inputs)
    nothing_yet.emplace_back(in.shared_output.size(), bfloat16::from_bits(0x7fff));
  for (std::size_t r = 0; r < 3; ++r) ranks[r].load(inputs[r]);
  for (std::size_t r = 0; r < 3; ++r) ranks[r].write_shared_output(nothing_yet[r]);
  for (auto& rank : ranks) rank.dispatch_async();
  for (auto& rank : ranks) rank.dispatch_wait();
  for (auto& rank : ranks) rank.reply(rank.read_received());
  for (std::size_t r = 0; r < 3; ++r) ranks[r].write_shared_output(inputs[r].shared_output);
  for (auto& rank : ranks) rank.combine_wait();
  for (std::size_t r = 0; r < 3; ++r)
    EXPECT_EQ(difference(expected_output({c, inputs}, static_cast<int>(r)), ranks[r].read_output()), "");
}

TEST_P(exchange_shared, of_rounds_in_flight_at_once_is_each_slots_own) {
  exchange_case c = shared({3, sizes(11, 3, 64, 9), {9, 4, 2}, routing::sparse});
  c.config.num_slots = 2;
  auto slots = make_slots(worlds(), c.config, [](int, int) { return stream_ref{}; });
  const std::array inputs{draw_inputs(c, 1), draw_inputs(c, 2)};
  const auto every_slot = [&](const auto& call) {
    for (std::size_t s = 0; s < 2; ++s)
      for (std::size_t r = 0; r < 3; ++r) call(slots[s][r], inputs[s][r]);
  };
  every_slot([](exchange_rank& rank, const rank_inputs& in) { rank.load(in); });
  every_slot([](exchange_rank& rank, const rank_inputs&) { rank.dispatch_async(); });
  every_slot([](exchange_rank& rank, const rank_inputs&) { rank.dispatch_wait(); });
  every_slot([](exchange_rank& rank, const rank_inputs&) { rank.reply(rank.read_received()); });
  every_slot([](exchange_rank& rank, const rank_inputs&) { rank.combine_wait(); });
  for (std::size_t s = 0; s < 2; ++s)
    for (std::size_t r = 0; r < 3; ++r)
      EXPECT_EQ(difference(expected_output({c, inputs[s]}, static_cast<int>(r)), slots[s][r].read_output()),
                "")
          << "slot " << s << ", rank " << r;
}

/// A round of two tokens up to its combine, and of none.
class begun_round {
 public:
  begun_round(const exchange_case& c, int num_tokens) : ranks_{make_ranks(one_, c.config)} {
    exchange_case of = c;
    of.tokens = {num_tokens};
    ranks_[0].load(draw_inputs(of, 1)[0]);
    ranks_[0].dispatch();
    ranks_[0].apply_experts(ranks_[0].read_received());
  }
  combine_input given(const void* shared_output) const {
    return {.expert_output = expert_output_.data(),
            .shared_output = static_cast<const bfloat16*>(shared_output)};
  }
  expert_parallel& ep() { return ranks_[0].ep(); }
  float* out() { return out_.data(); }

 private:
  std::vector<world> one_ = world::local(1, device_kind::cpu);
  std::vector<exchange_rank> ranks_;
  device_buffer<bfloat16> expert_output_{one_[0], 4096};
  device_buffer<float> out_{one_[0], 4096};
};

TEST_P(exchange_shared, that_is_misaligned_is_refused_by_name_unless_there_are_no_tokens) {
  const exchange_case c = shared({1, sizes(4, 2, 16, 2), {2}, routing::distinct});
  alignas(16) const std::array<std::byte, 256> memory{};
  begun_round two{c, 2};
  const combine_input askew = two.given(memory.data() + 8);
  for (const auto& call : {std::function{[&] { two.ep().combine(askew, two.out()); }},
                           std::function{[&] { two.ep().combine_async(askew); }}})
    EXPECT_TRUE(says(message_of<invalid_argument>(call), "shared_output:", "not aligned to 16 bytes"));
  EXPECT_NO_THROW(two.ep().combine(two.given(memory.data()), two.out()));
  EXPECT_NO_THROW(two.ep().ranks().synchronize());
  begun_round none{c, 0};
  EXPECT_NO_THROW(none.ep().combine(none.given(memory.data() + 8), none.out()));
  EXPECT_NO_THROW(none.ep().ranks().synchronize());
}

TEST(exchange_shared, is_refused_where_rows_are_not_reduced_and_the_round_goes_on) {
  const exchange_case c{1, sizes(4, 2, 16, 2), {2}, routing::distinct};
  alignas(16) const std::array<std::byte, 256> memory{};
  begun_round round{c, 2};
  std::vector<bfloat16> rows(2 * 2 * 16);
  round.ep().combine_async(round.given(memory.data()));
  EXPECT_TRUE(says(message_of<invalid_argument>([&] { round.ep().combine_wait_unreduced(rows.data()); }),
                   "combine_wait_unreduced: combine_async was given a shared_output", "call combine_wait"));
  EXPECT_NO_THROW(round.ep().combine_wait(nullptr, round.out()));
  EXPECT_NO_THROW(round.ep().ranks().synchronize());
}

TEST(exchange_shared, is_the_last_addend_by_sentinels_too) {
  exchange_case c = with({3, sizes(11, 3, 264, 9), {9, 4, 0}, routing::sparse}, token_format::bf16,
                         arrival_policy::sentinel);
  c.shared_experts = true;
  expect_shared_rounds(world::local(3, device_kind::cpu), c);
}

}  // namespace
}  // namespace baton::test
