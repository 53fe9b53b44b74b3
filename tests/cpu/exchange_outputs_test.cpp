// The other ways out of combine_wait, static input scales, and callables of the user's own.
#include <limits>

#include "baton/error.hpp"
#include "kernels/ep/per_expert/combine_async.hpp"
#include "kernels/ep/per_expert/combine_wait.hpp"
#include "kernels/ep/per_expert/dispatch_async.hpp"
#include "kernels/ep/per_expert/dispatch_wait.hpp"
#include "sim/context.hpp"
#include "tests/support/exchange_cases.hpp"

namespace baton::test {
namespace {

/// A round whose experts return their rows unchanged, up to combine_wait.
std::vector<rank_inputs> begin_identity_round(const exchange_case& c, std::vector<exchange_rank>& ranks) {
  auto inputs = draw_inputs(c, 11);
  for (std::size_t r = 0; r < ranks.size(); ++r) ranks[r].load(inputs[r]);
  for (auto& r : ranks) r.dispatch_async();
  for (auto& r : ranks) r.dispatch_wait();
  for (auto& r : ranks) r.combine_async(static_cast<const bfloat16*>(r.received().tokens));
  return inputs;
}

TEST(combine_wait, bf16_output_is_the_fp32_sum_rounded_once) {
  const exchange_case c{2, sizes(8, 3, 64, 5), {5, 2}, routing::sparse};
  auto ranks = make_ranks(world::local(2, device_kind::cpu), c.config);
  const auto inputs = begin_identity_round(c, ranks);
  std::vector<std::vector<bfloat16>> out(2);
  for (std::size_t r = 0; r < 2; ++r) {
    out[r].resize(inputs[r].tokens.size());
    ranks[r].ep().combine_wait(nullptr, out[r].data());
  }
  for (auto& rank : ranks) rank.ranks().synchronize();
  for (std::size_t r = 0; r < 2; ++r) {
    for (std::size_t t = 0; t < out[r].size() / 64; ++t) {
      for (std::size_t h = 0; h < 64; ++h) {
        float sum = 0.0f;
        for (std::size_t k = 0; k < 3; ++k)
          if (inputs[r].topk_idx[t * 3 + k] >= 0) sum += static_cast<float>(inputs[r].tokens[t * 64 + h]);
        EXPECT_EQ(out[r][t * 64 + h], bfloat16{sum});
      }
    }
  }
}

TEST(combine_wait, unreduced_rows_are_the_replies_and_zeros_where_nothing_was_sent) {
  const exchange_case c{2, sizes(8, 3, 64, 5), {5, 4}, routing::sparse};
  auto ranks = make_ranks(world::local(2, device_kind::cpu), c.config);
  const auto inputs = begin_identity_round(c, ranks);
  std::vector<std::vector<bfloat16>> out(2);
  for (std::size_t r = 0; r < 2; ++r) {
    out[r].assign(inputs[r].tokens.size() * 3, bfloat16::from_bits(0x7fff));
    ranks[r].ep().combine_wait_unreduced(out[r].data());
  }
  for (auto& rank : ranks) rank.ranks().synchronize();
  for (std::size_t r = 0; r < 2; ++r) {
    for (std::size_t i = 0; i < inputs[r].topk_idx.size(); ++i) {
      for (std::size_t h = 0; h < 64; ++h) {
        const bfloat16 sent = inputs[r].topk_idx[i] >= 0 ? inputs[r].tokens[i / 3 * 64 + h] : bfloat16{};
        EXPECT_EQ(out[r][i * 64 + h], sent) << "rank " << r << " choice " << i << " column " << h;
      }
    }
  }
}

/// Each rank's tokens are its own: one rank, whose rows are there once dispatch_wait's work has run.
received_tokens received_alone(exchange_rank& rank, const rank_inputs& in, const float* scales) {
  rank.ep().dispatch_async(in.tokens.data(), in.topk_idx.data(), in.num_tokens, {}, scales);
  const received_tokens rows = rank.ep().dispatch_wait();
  rank.ranks().synchronize();
  return rows;
}

/// visit(row, its token)
template <class Visit>
int for_each_row(const received_tokens& rows, Visit visit) {
  int count = 0;
  for (int e = 0; e < rows.num_local_experts; ++e) {
    for (int i = 0; i < rows.row_counts[e]; ++i, ++count) {
      const auto row = static_cast<std::size_t>(rows.row_offsets[e] + i);
      visit(row, static_cast<std::size_t>(rows.sources[row].token));
    }
  }
  return count;
}

class fp8_rows : public testing::TestWithParam<ep_layout> {
 protected:
  exchange_case one_rank() const {
    exchange_case c{1, sizes(4, 1, 1024, 3), {3}, routing::distinct};
    c.config.format = token_format::blockwise_fp8;
    c.config.layout = GetParam();
    return c;
  }
};

TEST_P(fp8_rows, have_the_callers_input_scales_instead_of_measured_ones) {
  const exchange_case c = one_rank();
  auto ranks = make_ranks(world::local(1, device_kind::cpu), c.config);
  const auto inputs = draw_inputs(c, 2);
  std::vector<float> scales;
  for (int block = 0; block < 8; ++block) scales.push_back(0.5f / static_cast<float>(1 + block));
  const received_tokens rows = received_alone(ranks[0], inputs[0], scales.data());
  const auto* payload = static_cast<const std::uint8_t*>(rows.tokens);
  const int seen = for_each_row(rows, [&](std::size_t row, std::size_t token) {
    for (std::size_t h = 0; h < 1024; ++h) {
      const float value = static_cast<float>(inputs[0].tokens[token * 1024 + h]);
      ASSERT_EQ(payload[row * 1024 + h], float8_e4m3{value * (1.0f / scales[h / 128])}.bits);
      ASSERT_EQ(
          static_cast<const float*>(rows.scales)[h / 128 * static_cast<std::size_t>(rows.max_rows) + row],
          scales[h / 128]);
    }
  });
  EXPECT_EQ(seen, 3);
}

TEST_P(fp8_rows, of_zeros_and_tiny_values_have_the_smallest_scale_and_an_infinity_makes_its_block_nan) {
  const exchange_case c = one_rank();
  auto ranks = make_ranks(world::local(1, device_kind::cpu), c.config);
  auto inputs = draw_inputs(c, 2);
  rank_inputs& in = inputs[0];
  std::fill_n(in.tokens.begin(), 1024, bfloat16{0.0f});
  std::fill_n(in.tokens.begin() + 1024, 1024, bfloat16{0x1p-20f});
  in.tokens[2 * 1024 + 300] = bfloat16{std::numeric_limits<float>::infinity()};
  const received_tokens rows = received_alone(ranks[0], in, nullptr);
  const auto* payload = static_cast<const std::uint8_t*>(rows.tokens);
  constexpr float smallest = 1e-4f / 448.0f;
  for_each_row(rows, [&](std::size_t row, std::size_t token) {
    for (std::size_t h = 0; h < 1024; ++h) {
      const float scale =
          static_cast<const float*>(rows.scales)[h / 128 * static_cast<std::size_t>(rows.max_rows) + row];
      const float8_e4m3 q = float8_e4m3::from_bits(payload[row * 1024 + h]);
      const float value = static_cast<float>(q) * scale;
      if (token < 2) {
        ASSERT_EQ(scale, smallest);
        ASSERT_EQ(q.bits, float8_e4m3{token == 0 ? 0.0f : 0x1p-20f * (1.0f / smallest)}.bits);
      } else {
        ASSERT_EQ(std::isnan(value), h / 128 == 300 / 128) << h;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(cpu, fp8_rows, testing::Values(ep_layout::per_expert, ep_layout::per_rank));

// The kernels take any callable: router weights by token and choice, output by token and columns.
struct halving_weights {
  float operator()(int, int topk_slot) const { return 1.0f / static_cast<float>(1 << topk_slot); }
};
struct add_to_residual {
  static constexpr bool is_reduced = true;
  float* residual;
  int hidden;
  template <class X>
  void operator()(X&, int token, int column, const float (&values)[8]) const {
    for (int i = 0; i < 8; ++i) residual[token * hidden + column + i] += values[i];
  }
};

TEST(combine_wait_kernel, calls_the_users_weights_and_output) {
  constexpr int tokens = 3, top_k = 2, hidden = 16;
  const ep::shape s{4, 1, 0, top_k, hidden, tokens};
  std::vector<std::int32_t> counters(
      static_cast<std::size_t>(ep_local_sync_counters::total_size(s.num_pairs())));
  std::vector<std::uint64_t> words(4, epoch_arrival::word(1, 0));
  std::vector<bfloat16> reply(tokens * top_k * hidden);
  for (std::size_t i = 0; i < reply.size(); ++i) reply[i] = bfloat16{static_cast<float>(i % 64)};
  std::vector<std::int32_t> send_slots(tokens * top_k, 0);
  std::vector<std::int32_t> sent_counts(4, 0);
  std::vector<float> residual(tokens * hidden, 100.0f);
  ep::round_counters rounds{};
  ep::combine_wait_params<add_to_residual, halving_weights> p{};
  p.s = s;
  p.num_tokens = tokens;
  p.units = ep::units_for(ep::reply_steps_of(s), tokens, 4);
  p.reply = reinterpret_cast<const std::byte*>(reply.data());
  p.count = words.data();
  p.counters = {counters.data(), s.num_pairs()};
  p.rounds = &rounds;
  p.send_slots = send_slots.data();
  p.sent_counts = sent_counts.data();
  p.output = {residual.data(), hidden};
  sim::machine machine{1};
  machine.launch(0, {2, 2, 16, {}},
                 [&](sim::context& x) { ep::combine_wait_kernel<epoch_arrival>::run(x, p); });
  machine.run(0);
  for (std::size_t t = 0; t < tokens; ++t) {
    for (std::size_t h = 0; h < hidden; ++h) {
      const float first = static_cast<float>((t * 2 * hidden + h) % 64);
      const float second = static_cast<float>(((t * 2 + 1) * hidden + h) % 64);
      EXPECT_EQ(residual[t * hidden + h], 100.0f + first + 0.5f * second);
    }
  }
  EXPECT_EQ(rounds.combine, 1u);
  for (const std::int32_t word : counters) EXPECT_EQ(word, 0) << "counters restore themselves";
}

}  // namespace
}  // namespace baton::test
