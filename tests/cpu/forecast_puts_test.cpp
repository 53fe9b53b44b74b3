// What a round puts, says the forecast, is what the kernels give the CPU machine's network.
#include <gtest/gtest.h>

#include <algorithm>

#include "forecast/forecast.hpp"
#include "tests/support/exchange_cases.hpp"
#include "tests/support/simulated_worlds.hpp"

namespace baton::forecast {
namespace {

using test::exchange_case;

/// What a case's ranks choose, and -1 for tokens that they do not have.
choices_of_ranks given(const std::vector<test::rank_inputs>& inputs) {
  return [&inputs](int rank, std::span<std::int32_t> ids) {
    const auto& own = inputs[static_cast<std::size_t>(rank)].topk_idx;
    std::fill(ids.begin(), ids.end(), -1);
    std::copy(own.begin(), own.end(), ids.begin());
  };
}

std::uint64_t messages_between(const routed& routing, int from, int to) {
  std::uint64_t messages = 0;
  for (int block = 0; block < routing.blocks(); ++block) messages += routing.to_rank(from, block, to);
  return messages;
}

/// Of tokens and sums that one rank sends another one beyond its group in a round, and of ids, which only per_rank puts.
std::uint64_t puts_between(const question& q, const message_sizes& sizes, const routed& routing, int from,
                           int to) {
  if (q.is_near(from, to)) return 0;
  const std::uint64_t ids = q.per_expert() ? 0 : static_cast<std::uint64_t>(sizes.far_id_puts),
                      parts = static_cast<std::uint64_t>(sizes.parts_of_reply);
  if (!q.forwards())
    return ids + messages_between(routing, from, to) + parts * messages_between(routing, to, from);
  if (q.counterpart(from, q.group_of(to)) != to) return ids;
  std::uint64_t out = 0, back = 0;
  for (int block = 0; block < routing.blocks(); ++block) {
    out += routing.to_group(from, block, q.group_of(to));
    back += routing.to_group(to, block, q.group_of(from));
  }
  return ids + out + parts * back;
}

/// What a round of the kernels has put, against the forecast of the same round.
void expect_what_kernels_put(const exchange_case& c) {
  const auto worlds = test::simulated_worlds(c.ranks, {});
  const sim::machine& machine = *worlds[0].state().machine;
  auto ranks = test::make_ranks(worlds, c.config);
  ASSERT_EQ(test::run_round(c, ranks, 5), "");
  const auto inputs = test::draw_inputs(c, 5);
  question q;
  q.ranks = c.ranks;
  q.config = c.config;
  const message_sizes sizes = sizes_of(q);
  const routed routing{q, given(inputs)};
  const phase out = dispatch_phase(q, sizes, routing), back = combine_phase(q, sizes, routing);
  sim::network_traffic all;
  for (int from = 0; from < q.ranks; ++from)
    for (int to = 0; to < q.ranks; ++to) {
      const sim::network_traffic sent = machine.sent_through_network(from, to);
      EXPECT_EQ(sent.puts, puts_between(q, sizes, routing, from, to)) << from << " to " << to;
      all.puts += sent.puts;
      all.bytes += sent.bytes;
      all.signals += sent.signals;
    }
  EXPECT_EQ(all.puts, out.far.messages + out.far.id_messages + back.far.messages);
  EXPECT_EQ(all.bytes, out.far.bytes + out.far.id_bytes + back.far.bytes);
  EXPECT_EQ(all.signals, out.far.signals + back.far.signals);
}

TEST(forecast_puts, puts_and_signals_are_those_of_the_kernels_in_every_case) {
  for (const auto& [ranks, group] : std::vector<std::pair<int, int>>{{2, 1}, {3, 2}, {4, 1}, {4, 2}, {8, 3}})
    for (const test::named_case& c : test::conformance_cases(ranks)) {
      if (c.what.ids == test::routing::repeated || c.what.ids == test::routing::one_expert) continue;
      SCOPED_TRACE(fmt::format("{}, {} ranks, groups of {}", c.name, ranks, group));
      exchange_case what = c.what;
      what.config.p2p_group_size = group;
      expect_what_kernels_put(what);
    }
}

/// Sums in parts, where there are few tokens that are wide, and ids by the line.
TEST(forecast_puts, puts_of_layout_per_rank_are_those_of_the_kernels_with_both_levels) {
  for (const auto& [ranks, group] : std::vector<std::pair<int, int>>{{2, 1}, {3, 2}, {4, 1}, {4, 2}})
    for (const test::named_case& c : test::conformance_cases(ranks)) {
      if (c.what.ids == test::routing::repeated || c.what.ids == test::routing::one_expert) continue;
      for (const ep_levels by : {ep_levels::one, ep_levels::two}) {
        if (by == ep_levels::two && ranks % group != 0) continue;
        SCOPED_TRACE(fmt::format("{}, {} ranks, groups of {}, {} level(s)", c.name, ranks, group,
                                 by == ep_levels::two ? 2 : 1));
        exchange_case what = test::per_rank(c.what);
        what.config.p2p_group_size = group;
        what.config.levels = by;
        expect_what_kernels_put(what);
      }
    }
}

TEST(forecast_puts, puts_are_those_of_the_kernels_in_every_format) {
  for (const token_format format :
       {token_format::blockwise_fp8, token_format::mxfp8, token_format::mxfp4, token_format::nvfp4}) {
    exchange_case c = test::with(test::conformance_cases(4)[0].what, format, arrival_policy::epoch);
    c.config.p2p_group_size = 2;
    expect_what_kernels_put(c);
    expect_what_kernels_put(test::per_rank(c, format));
  }
}

}  // namespace
}  // namespace baton::forecast
