// The forms in which callers have what they give to a round, for every way in which tokens travel.
#include "baton/error.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/exchange_cases.hpp"

namespace baton::test {
namespace {

enum class travel { by_expert, in_lines, in_chunks };

class exchange_forms : public testing::TestWithParam<travel> {
 protected:
  static exchange_case travelling(exchange_case c, token_format format = token_format::bf16) {
    if (GetParam() == travel::by_expert) return with(std::move(c), format, arrival_policy::epoch);
    return per_rank(std::move(c), format,
                    GetParam() == travel::in_lines ? ep_transfer::lines : ep_transfer::chunks);
  }
};

INSTANTIATE_TEST_SUITE_P(cpu, exchange_forms,
                         testing::Values(travel::by_expert, travel::in_lines, travel::in_chunks),
                         [](const auto& how) {
                           return how.param == travel::by_expert  ? "by_expert"
                                  : how.param == travel::in_lines ? "in_lines"
                                                                  : "in_chunks";
                         });

TEST_P(exchange_forms, ids_of_64_bits_give_the_same_bits_as_those_of_32) {
  const auto worlds = world::local(3, device_kind::cpu);
  for (const token_format format : {token_format::bf16, token_format::blockwise_fp8}) {
    for (const int top_k : {3, 8}) {
      exchange_case c = travelling({3, sizes(11, top_k, 128, 40), {40, 3, 0}, routing::sparse}, format);
      c.wide_ids = true;
      auto ranks = make_ranks(worlds, c.config);
      for (const calls how : {calls::fused, calls::apart}) EXPECT_EQ(run_round(c, ranks, 1, how), "");
      for (auto& r : ranks) EXPECT_NO_THROW(r.ep().check());
    }
  }
}

TEST_P(exchange_forms, ids_beyond_32_bits_become_no_others_and_are_reported) {
  exchange_case c = travelling({2, sizes(8, 2, 64, 20), {20, 20}, routing::distinct});
  c.wide_ids = true;
  auto ranks = make_ranks(world::local(2, device_kind::cpu), c.config);
  const std::int64_t beyond = std::int64_t{1} << 32;
  const std::pair<std::int64_t, const char*> bad[] = {
      {beyond, "2147483647 or more"},       {beyond + 3, "2147483647 or more"},
      {3 - beyond, "-2147483648 or less"},  {beyond - 1, "2147483647 or more"},
      {-1 - beyond, "-2147483648 or less"}, {8, "8, outside [-1, 8)"},
      {-2, "-2, outside [-1, 8)"}};
  for (const auto& [id, told] : bad) {
    auto inputs = draw_inputs(c, 3);
    for (const std::size_t at : {9, 30}) {
      inputs[1].wide_ids[at] = id;
      inputs[1].topk_idx[at] = -1;
    }
    for (std::size_t r = 0; r < 2; ++r) ranks[r].load(inputs[r]);
    for (auto& r : ranks) r.dispatch();
    std::vector<received_copy> got;
    for (auto& r : ranks) got.push_back(r.read_received());
    for (std::size_t r = 0; r < 2; ++r) {
      EXPECT_EQ(difference(c, inputs, static_cast<int>(r), got[r]), "") << id;
      ranks[r].apply_experts(got[r]);
    }
    for (auto& r : ranks) r.combine();
    for (std::size_t r = 0; r < 2; ++r)
      EXPECT_EQ(difference(expected_output(c, inputs, static_cast<int>(r)), ranks[r].read_output()), "");
    EXPECT_NO_THROW(ranks[0].ep().check());
    try {
      ranks[1].ep().check();
      ADD_FAILURE() << id << " is not reported";
    } catch (const device_error& e) {
      EXPECT_TRUE(says(e.what(), "rank 1, token 4, choice 1", told)) << e.what();
    }
  }
}

TEST_P(exchange_forms, ids_of_64_bits_may_begin_at_any_of_them) {
  const exchange_case c = travelling({1, sizes(9, 8, 16, 30), {29}, routing::sparse});
  auto ranks = make_ranks(world::local(1, device_kind::cpu), c.config);
  const rank_inputs in = draw_inputs(c, 5)[0];
  for (const std::size_t shift : {0, 1}) {
    std::vector<std::int64_t> ids(shift, 0);
    ids.insert(ids.end(), in.topk_idx.begin(), in.topk_idx.end());
    ranks[0].load(in);
    ranks[0].dispatch_with({.tokens = in.tokens.data(), .topk_idx = ids.data() + shift, .num_tokens = 29});
    EXPECT_EQ(difference(c, {in}, 0, ranks[0].read_received()), "") << shift;
    ranks[0].combine(static_cast<const bfloat16*>(ranks[0].received().tokens));
  }
}

TEST_P(exchange_forms, ids_of_64_bits_that_are_not_on_8_bytes_are_refused) {
  const exchange_case c = travelling({1, sizes(4, 2, 16, 2), {2}, routing::distinct});
  auto ranks = make_ranks(world::local(1, device_kind::cpu), c.config);
  alignas(16) std::byte memory[80]{};
  const auto* tokens = reinterpret_cast<const bfloat16*>(memory);
  const auto* ids = reinterpret_cast<const std::int64_t*>(memory + 4);
  try {
    ranks[0].ep().dispatch({.tokens = tokens, .topk_idx = ids, .num_tokens = 2});
    FAIL() << "not refused";
  } catch (const invalid_argument& e) {
    EXPECT_TRUE(says(e.what(), "topk_idx", "not aligned to 8 bytes")) << e.what();
  }
}

}  // namespace
}  // namespace baton::test
