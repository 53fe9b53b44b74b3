// Layout per_rank in chunks, in memory of the test's own: what its settings are, and what is damaged between its kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "exec/site_name.hpp"
#include "kernels/ep/outputs.hpp"
#include "kernels/ep/per_rank_chunks/combine.hpp"
#include "kernels/ep/per_rank_chunks/dispatch.hpp"
#include "kernels/ep/per_rank_chunks/endpoint.hpp"
#include "kernels/ep/per_rank_chunks/grid.hpp"
#include "kernels/ep/with_tokens.hpp"
#include "sim/machine.hpp"
#include "tests/support/flipped_ids.hpp"
#include "tests/support/staged_rounds.hpp"

namespace baton::test::chunks {
namespace {

using namespace ep::per_rank_chunks;

constexpr int num_ranks = 2, top_k = 2, hidden = 1032;
constexpr int hidden_of_blocks = 2080;  // of which e2m1 and its scales are several pieces, the last one short

/// Two ranks whose experts return what they get, each token (and each choice) another value.
class chunk_rounds : public staged_rounds<num_ranks> {
 public:
  explicit chunk_rounds(const std::array<int, num_ranks>& tokens, const chunk_settings& settings = {},
                        const sim::options& options = {}, ep::row_storage rows = ep::row_storage::of_experts,
                        token_format format = token_format::bf16)
      : staged_rounds{shape_of(tokens, rows, format), options}, settings_{settings}, num_tokens_{tokens} {
    take_memory(cells{shape_, settings}.bytes, local_cells{shape_, settings}.bytes);
    for (int rank = 0; rank < num_ranks; ++rank) {
      tokens_[static_cast<std::size_t>(rank)] = some_tokens(rank);
      ids_[static_cast<std::size_t>(rank)] = some_ids(rank);
    }
  }

  received_tokens received(int rank) { return end_of_rank(rank).received(); }
  template <class T>
  T* own(int rank, std::size_t local_cells::*offset) {
    return end_of_rank(rank).own<T>(offset);
  }

 private:
  static ep::shape shape_of(const std::array<int, num_ranks>& tokens, ep::row_storage rows,
                            token_format format) {
    return {.num_experts = 3,
            .num_ranks = num_ranks,
            .top_k = top_k,
            .hidden = format == token_format::bf16 ? hidden : hidden_of_blocks,
            .max_tokens = std::max(1, *std::max_element(tokens.begin(), tokens.end())),
            .format = format,
            .rows = rows};
  }
  endpoint end_of_rank(int rank) { return end_of(rank, endpoint{{shape_, {}, nullptr}, settings_}); }
  void enqueue(int at, int rank) override {
    const endpoint e = end_of_rank(rank);
    const auto r = static_cast<std::size_t>(rank);
    const bool sends = at == send || at == send_sums;
    if (at == send || at == receive) {
      block_roles roles{sends ? 1 : 0, sends ? 2 : 3, settings_.dispatch_stages};
      roles.takes_of_all = settings_.takes == taking::of_all;
      const auto p =
          e.dispatch({tokens_[r].data(), ids_[r].data(), nullptr, num_tokens_[r], {}}, roles, !sends);
      return ep::with_tokens(shape_.format, false, [&]<class Tokens>() {
        launch<dispatch_kernel<Tokens>>(rank, p, roles.warps(), dispatch_plan(p.window, roles).bytes);
      });
    }
    block_roles roles{sends ? 2 : 0, sends ? 0 : 2};
    roles.takes_of_all = settings_.takes == taking::of_all;
    const auto p = e.combine({returned(e), num_tokens_[r]}, roles, !sends,
                             ep::store_fp32{of_rank(rank).out.data(), hidden});
    launch<combine_kernel<ep::store_fp32>>(rank, p, roles.warps(), combine_plan{}.bytes);
  }

  /// What experts return: the rows they got, or tokens copied to such rows.
  const bfloat16* returned(const endpoint& e) {
    if (!shape_.by_token()) return e.own<bfloat16>(&local_cells::tokens);
    const received_tokens got = e.received();
    std::vector<bfloat16>& rows = rows_[static_cast<std::size_t>(e.s.rank)];
    rows.resize(static_cast<std::size_t>(got.max_rows * hidden));
    for (int local = 0; local < got.num_local_experts; ++local)
      for (int row = got.row_offsets[local]; row < got.row_offsets[local] + got.row_counts[local]; ++row)
        std::memcpy(&rows[static_cast<std::size_t>(row * hidden)],
                    static_cast<const std::byte*>(got.tokens) + got.token_rows[row] * got.row_bytes,
                    sizeof(bfloat16) * hidden);
    return rows.data();
  }

  chunk_settings settings_;
  std::array<int, num_ranks> num_tokens_;
  std::array<std::vector<bfloat16>, num_ranks> tokens_, rows_;
  std::array<std::vector<std::int32_t>, num_ranks> ids_;
};

constexpr std::array few{5, 3};
constexpr chunk_settings four_a_chunk{.chunk_tokens = 4};

TEST(exchange_chunks_settings, change_no_bit_of_a_result) {
  constexpr std::array tokens{37, 20};
  chunk_rounds usual{tokens};
  usual.run();
  EXPECT_EQ(usual.of_rank(0).record.complete, 0u);
  sim::options random;
  random.order = sim::schedule::random;
  random.delay_stores = true;
  for (const auto& [chunk, tile, piece, stages] :
       {std::array{1, 1, 512, 1}, {1, 32, 1024, 2}, {8, 8, 8192, 1}, {32, 32, 512, 3}, {4, 16, 1536, 4}}) {
    chunk_settings s;
    s.chunk_tokens = chunk;
    s.tile_tokens = tile;
    s.piece_bytes = piece;
    s.dispatch_stages = stages;
    s.least_sums = 64 * stages;
    for (const ep::row_storage rows : {ep::row_storage::of_experts, ep::row_storage::in_window}) {
      ++random.seed;
      s.takes = random.seed / 2 % 2 == 0 ? taking::of_all : taking::of_shares;
      chunk_rounds e{tokens, s, random, rows};
      for (int round = 1; round <= 3; ++round) e.run();
      for (const int rank : {0, 1})
        EXPECT_TRUE(e.of_rank(rank).out == usual.of_rank(rank).out)
            << "rank " << rank << ", chunks of " << chunk << ", tiles of " << tile << ", pieces of " << piece
            << (rows == ep::row_storage::in_window ? ", by token" : "");
    }
  }
}

TEST(exchange_chunks_damage, a_flipped_bit_of_an_arrival_word_is_named) {
  chunk_rounds e{few, four_a_chunk};
  e.run();
  std::array<std::array<rank_memory, num_ranks>, chunk_rounds::num_stages> before;
  e.run(chunk_rounds::send, [&](int stage) { before[static_cast<std::size_t>(stage)] = e.memory; });
  const auto wants_other = [](std::uint32_t ranks) { return (ranks & 2) != 0; };
  const auto* ranks = e.own<std::uint32_t>(0, &local_cells::rank_sets);
  const auto summed = static_cast<int>(std::find_if(ranks, ranks + few[0], wants_other) - ranks);
  ASSERT_LT(summed, few[0]);
  const cells window{e.shape(), four_a_chunk};
  const std::pair<int, std::size_t> words[] = {
      {chunk_rounds::receive, window.token_word_at(e.shape(), 2, 1, 0)},
      {chunk_rounds::receive_sums, window.sum_word_at(e.shape(), 1, summed, 0)}};
  for (const auto& [stage, at] : words) {
    for (int bit = 0; bit < 64; ++bit) {
      e.memory = before[static_cast<std::size_t>(stage)];
      e.word(0, at) ^= std::uint64_t{1} << bit;
      e.run(stage);
      ASSERT_EQ(e.of_rank(0).record.complete, 1u) << "bit " << bit;
      EXPECT_EQ(name(e.of_rank(0).record.where),
                stage == chunk_rounds::receive ? "dispatch.chunk" : "combine.sum");
      EXPECT_EQ(e.of_rank(0).record.peer, 1);
    }
  }
}

TEST(exchange_chunks_damage, a_damaged_count_of_what_is_taken_of_all_is_named_or_does_no_harm) {
  constexpr chunk_settings of_all{.chunk_tokens = 4, .takes = taking::of_all};
  chunk_rounds usual{few, of_all};
  usual.run();
  int named = 0;
  for (const std::uint32_t count : {1u, 0x40000000u, 0x7fffffffu, 0x80000000u, 0xffffffffu}) {
    chunk_rounds e{few, of_all};
    e.own<taken_of_all>(1, &local_cells::taken)->chunks_to_send = count;
    e.run();
    const stuck_record& r = e.of_rank(0).record;
    if (r.complete == 0) {
      EXPECT_TRUE(e.of_rank(0).out == usual.of_rank(0).out) << count;
      continue;
    }
    ++named;
    EXPECT_EQ(name(r.where), "dispatch.chunk") << count;
    EXPECT_EQ(r.peer, 1) << count;
  }
  EXPECT_GE(named, 3);
}

TEST(exchange_chunks_damage, a_word_that_says_another_number_of_tokens_is_refused) {
  for (const ep::row_storage rows : {ep::row_storage::of_experts, ep::row_storage::in_window}) {
    chunk_rounds e{few, four_a_chunk, {}, rows};
    const std::size_t at = cells{e.shape(), four_a_chunk}.token_word_at(e.shape(), 1, 1, 0);
    e.run(chunk_rounds::send, [&](int now) {
      if (now == chunk_rounds::receive)
        e.word(0, at) = arrival_word::of(1, arrival_word::count(e.word(0, at)) - 1);
    });
    const stuck_record& r = e.of_rank(0).record;
    ASSERT_EQ(r.complete, 1u);
    EXPECT_EQ(name(r.where), "dispatch.damaged_chunk");
    EXPECT_EQ(r.peer, 1);
    EXPECT_EQ(r.seen + 1, r.expected);
  }
}

TEST(exchange_chunks_damage, a_flipped_bit_of_an_arrival_word_is_named_by_token_too) {
  chunk_rounds e{few, four_a_chunk, {}, ep::row_storage::in_window};
  const std::size_t at = cells{e.shape(), four_a_chunk}.token_word_at(e.shape(), 1, 1, 0);
  std::array<rank_memory, num_ranks> before;
  e.run(chunk_rounds::send, [&](int stage) {
    if (stage == chunk_rounds::receive) before = e.memory;
  });
  for (int bit = 0; bit < 64; ++bit) {
    e.memory = before;
    e.word(0, at) ^= std::uint64_t{1} << bit;
    e.run(chunk_rounds::receive);
    ASSERT_EQ(e.of_rank(0).record.complete, 1u) << "bit " << bit;
    EXPECT_EQ(name(e.of_rank(0).record.where), "dispatch.chunk");
    EXPECT_EQ(e.of_rank(0).record.peer, 1);
  }
}

/// A rank's rows with their scales, after a dispatch.
std::vector<std::byte> rows_and_scales(chunk_rounds& e, int rank) {
  const received_tokens got = e.received(rank);
  const scale_places places{got.scales_layout, got.max_rows, facts_of(got.format).row_scales(got.hidden)};
  const auto values = static_cast<std::size_t>(facts_of(got.format).row_bytes(got.hidden));
  std::vector<std::byte> all;
  for (int local = 0; local < got.num_local_experts; ++local)
    for (int row = got.row_offsets[local]; row < got.row_offsets[local] + got.row_counts[local]; ++row) {
      const auto* at = static_cast<const std::byte*>(got.tokens) + static_cast<std::size_t>(row) * values;
      all.insert(all.end(), at, at + values);
      for (int b = 0; b < places.blocks; ++b)
        all.push_back(static_cast<const std::byte*>(got.scales)[places.at(row, b)]);
    }
  return all;
}

TEST(exchange_chunks_settings, change_no_bit_of_values_and_scales_in_formats_of_fewer_bits) {
  using enum token_format;
  const auto dispatched = [](chunk_rounds& e) {
    e.run(chunk_rounds::send, {}, chunk_rounds::send_sums);
    return std::array{rows_and_scales(e, 0), rows_and_scales(e, 1)};
  };
  for (const token_format format : {mxfp8, mxfp4, nvfp4}) {
    chunk_rounds usual{few, {}, {}, ep::row_storage::of_experts, format};
    const auto right = dispatched(usual);
    EXPECT_GT(right[0].size(), std::size_t{hidden_of_blocks});
    for (const auto& [chunk, piece, stages] : {std::array{1, 512, 1}, {4, 1024, 2}, {8, 1536, 3}}) {
      chunk_settings s;
      s.chunk_tokens = chunk;
      s.piece_bytes = piece;
      s.dispatch_stages = stages;
      chunk_rounds e{few, s, {}, ep::row_storage::of_experts, format};
      EXPECT_EQ(dispatched(e), right) << name(format) << ", pieces of " << piece;
    }
  }
}

TEST(exchange_chunks_settings, blocks_are_made_up_as_was_measured_for_how_tokens_lie_and_how_many_blocks) {
  ep::shape s{};
  for (const token_format format : {token_format::bf16, token_format::blockwise_fp8}) {
    s = {
        .num_experts = 256, .num_ranks = 2, .top_k = 8, .hidden = 7168, .max_tokens = 4096, .format = format};
    const block_roles experts = grid_of_dispatch(endpoint::of(s), {132}).roles;
    EXPECT_EQ((std::array{experts.senders, experts.others, experts.stages}), (std::array{6, 8, 2}));
    s.rows = ep::row_storage::in_window;
    const block_roles tokens = grid_of_dispatch(endpoint::of(s), {132}).roles;
    EXPECT_EQ((std::array{tokens.senders, tokens.others, tokens.stages}), (std::array{10, 6, 1}));
    const block_roles few_tokens = grid_of_dispatch(endpoint::of(s), {24}).roles;
    EXPECT_EQ((std::array{few_tokens.senders, few_tokens.others}), (std::array{14, 2}));
    const block_roles many = grid_of_combine(endpoint::of(s), {132}).roles,
                      few_sums = grid_of_combine(endpoint::of(s), {24}).roles;
    EXPECT_EQ((std::array{many.senders, many.others, many.at_once}), (std::array{8, 8, 1}));
    EXPECT_EQ((std::array{few_sums.senders, few_sums.others, few_sums.at_once}), (std::array{12, 4, 4}));
    EXPECT_TRUE(few_sums.prefetches && !many.prefetches);
  }
}

TEST(exchange_chunks_settings,
     few_blocks_among_four_ranks_have_fewer_senders_of_sums_that_are_told_of_together) {
  ep::shape s{.num_experts = 256, .num_ranks = 4, .top_k = 8, .hidden = 7168, .max_tokens = 4096};
  const auto made_up = [&](int blocks, half which = half::both) {
    const block_roles r = grid_of_combine(endpoint::of(s), {.blocks = blocks, .which = which}).roles;
    return std::array{r.senders, r.others, r.at_once};
  };
  EXPECT_EQ(made_up(24), (std::array{8, 8, 8}));
  EXPECT_EQ(made_up(32), (std::array{9, 7, 8})) << "more than ask for whole rows";
  EXPECT_EQ(made_up(64), (std::array{12, 4, 1}));
  EXPECT_EQ(made_up(132), (std::array{6, 10, 1}));
  EXPECT_EQ(made_up(24, half::send), (std::array{16, 0, 8}));
  EXPECT_EQ(made_up(24, half::receive), (std::array{0, 16, 8}));
  s.max_tokens = 256;
  EXPECT_EQ(made_up(24), (std::array{8, 8, 4})) << "four parts of a token";
  s.max_tokens = 128;
  EXPECT_EQ(made_up(24), (std::array{8, 8, 1})) << "too few of a warp to let the others wait";
}

TEST(exchange_chunks_settings, few_blocks_take_what_is_next_of_all_and_more_than_two_ranks_sums_of_all) {
  ep::shape s{.num_experts = 256, .num_ranks = 2, .top_k = 8, .hidden = 7168, .max_tokens = 4096};
  s.rows = ep::row_storage::in_window;
  const auto of_all = [&](int blocks) {
    const endpoint end = endpoint::of(s);
    return std::array{grid_of_dispatch(end, {.blocks = blocks}).roles.takes_of_all,
                      grid_of_combine(end, {.blocks = blocks}).roles.takes_of_all};
  };
  EXPECT_EQ(of_all(24), (std::array{true, true}));
  EXPECT_EQ(of_all(132), (std::array{false, false}));
  s.num_ranks = 4;
  EXPECT_EQ(of_all(24), (std::array{true, true}));
  EXPECT_EQ(of_all(132), (std::array{false, true}));
  const block_roles r = grid_of_dispatch(endpoint::of(s), {.blocks = 24}).roles;
  EXPECT_EQ((std::array{r.senders, r.others}), (std::array{10, 6})) << "links are what it waits for";
}

TEST(exchange_chunks_settings, sums_of_a_pair_with_many_blocks_are_in_parts_unless_there_are_many) {
  ep::shape s{.num_experts = 256, .num_ranks = 2, .top_k = 8, .hidden = 7168};
  const auto parts = [&](int tokens, bool has_many_blocks) {
    s.max_tokens = tokens;
    return endpoint::of(s, has_many_blocks).window_cells().sum_parts;
  };
  EXPECT_EQ((std::array{parts(512, true), parts(2048, true), parts(4096, true), parts(8192, true)}),
            (std::array{4, 4, 2, 1}));
  EXPECT_EQ((std::array{parts(512, false), parts(1024, false), parts(4096, false)}), (std::array{4, 2, 1}));
  s.num_ranks = 4;
  EXPECT_EQ(parts(4096, true), 1);
}

TEST(exchange_chunks_damage, a_flipped_bit_of_ids_is_named_or_does_no_harm) {
  chunk_rounds e{few};
  expect_flipped_ids_are_named_or_do_no_harm(e, cells{e.shape()}, 29);
}

/// What rank 0 reports of what it finds at combine_async.
template <class Damage>
stuck_record reported_by_combine(Damage damage) {
  chunk_rounds e{few};
  e.run(chunk_rounds::send, [&](int stage) {
    if (stage == chunk_rounds::send_sums) damage(e);
  });
  return e.of_rank(0).record;
}

TEST(exchange_chunks_damage, a_row_that_there_is_not_is_refused) {
  for (const int row : {-1, chunk_rounds{few}.shape().max_rows(), 1 << 30}) {
    const stuck_record r = reported_by_combine([&](chunk_rounds& e) {
      const std::uint32_t choices = e.own<std::uint32_t>(0, &local_cells::choices)[1];
      ASSERT_NE(choices, 0u);
      e.own<entry>(0, &local_cells::entries)[top_k + lowest_bit(choices)].row = row;
    });
    ASSERT_EQ(r.complete, 1u) << row;
    EXPECT_EQ(name(r.where), "combine.damaged_row");
  }
}

TEST(exchange_chunks_damage, more_tokens_of_a_rank_than_there_may_be_are_refused) {
  for (const int tokens : {-1, few[0] + 1, 1 << 30}) {
    const stuck_record r = reported_by_combine(
        [&](chunk_rounds& e) { e.own<std::int32_t>(0, &local_cells::token_counts)[1] = tokens; });
    ASSERT_EQ(r.complete, 1u) << tokens;
    EXPECT_EQ(name(r.where), "combine.damaged_count");
    EXPECT_EQ(r.peer, 1);
  }
}

TEST(exchange_chunks_epochs, are_counted_beyond_32_bits) {
  chunk_rounds e{few};
  e.run();
  const auto first = e.memory;
  constexpr std::uint64_t before = (std::uint64_t{1} << 32) - 2;
  for (int rank = 0; rank < num_ranks; ++rank)
    *e.own<round_epochs>(rank, &local_cells::epochs) = {before, before};
  for (int round = 1; round <= 4; ++round) {
    for (rank_memory& m : e.memory) m.out.assign(m.out.size(), -1.0f);
    e.run();
    for (int rank = 0; rank < num_ranks; ++rank) {
      EXPECT_EQ(e.of_rank(rank).record.complete, 0u);
      EXPECT_EQ(e.own<round_epochs>(rank, &local_cells::epochs)->combined,
                before + static_cast<std::uint64_t>(round));
    }
    EXPECT_EQ(std::vector(e.of_rank(0).out.begin(), e.of_rank(0).out.begin() + few[0] * hidden),
              std::vector(first[0].out.begin(), first[0].out.begin() + few[0] * hidden));
  }
}

}  // namespace
}  // namespace baton::test::chunks
