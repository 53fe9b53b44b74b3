// Ranks beyond the p2p group in memory of the test's own, mostly with two levels: what settings of chunks change, which is
// nothing, and what is damaged between kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <utility>

#include "exec/site_name.hpp"
#include "kernels/ep/outputs.hpp"
#include "kernels/ep/per_rank_chunks/combine.hpp"
#include "kernels/ep/per_rank_chunks/dispatch.hpp"
#include "kernels/ep/per_rank_chunks/endpoint.hpp"
#include "kernels/ep/with_tokens.hpp"
#include "sim/machine.hpp"
#include "tests/support/staged_rounds.hpp"

namespace baton::test::two_levels {
namespace {

using namespace ep::per_rank_chunks;

constexpr int num_ranks = 4, group = 2, top_k = 3, num_tokens = 9;

/// Four ranks in groups of two, or as many as are said, whose experts return what they get.
class forwarded_rounds : public staged_rounds<num_ranks> {
 public:
  explicit forwarded_rounds(const chunk_settings& settings = {}, token_format format = token_format::bf16,
                            const sim::options& options = {}, bool two_levels = true, int group_size = group)
      : staged_rounds{{.num_experts = 6,
                       .num_ranks = num_ranks,
                       .top_k = top_k,
                       .hidden = 2080,  // of e2m1 several pieces, the last one short
                       .max_tokens = num_tokens,
                       .format = format},
                      options},
        settings_{settings},
        two_levels_{two_levels},
        group_size_{group_size} {
    take_memory(groups().bytes, group_local_cells{shape_, settings, group_size}.bytes);
    for (int rank = 0; rank < num_ranks; ++rank) {
      tokens_[static_cast<std::size_t>(rank)] = some_tokens(rank);
      ids_of(rank) = some_ids(rank);
    }
  }

  cells window() const { return cells{shape_, settings_}; }
  group_cells groups() const { return {shape_, window(), group_size_}; }
  std::vector<std::int32_t>& ids_of(int rank) { return ids_[static_cast<std::size_t>(rank)]; }
  int tokens_now = num_tokens;  // of each rank, the first ones

  /// The tokens as each rank's rows have them.
  std::vector<std::byte> rows() {
    std::vector<std::byte> all;
    for (int rank = 0; rank < num_ranks; ++rank) {
      const received_tokens got = end_of_rank(rank).received();
      const auto* first = static_cast<const std::byte*>(got.tokens);
      all.insert(all.end(), first, first + got.row_offsets[got.num_local_experts] * got.row_bytes);
    }
    return all;
  }

 private:
  endpoint end_of_rank(int rank) {
    return end_of(rank, endpoint{{shape_, {}, nullptr}, settings_, group_size_, two_levels_});
  }
  /// Parameters of kernels that reach other groups as the rounds do.
  template <class Params, class Launch>
  void reaching(const endpoint& e, const Params& p, Launch launch) {
    if (two_levels_)
      launch(e.with_two_levels(p));
    else
      launch(e.with_far(p));
  }
  void enqueue(int at, int rank) override {
    const endpoint e = end_of_rank(rank);
    const auto r = static_cast<std::size_t>(rank);
    const bool sends = at == send || at == send_sums;
    if (at == send || at == receive) {
      const block_roles roles{sends ? 1 : 0, sends ? 2 : 3, settings_.dispatch_stages};
      const dispatch_params sent =
          e.dispatch({tokens_[r].data(), ids_[r].data(), nullptr, tokens_now, {}}, roles, !sends);
      return reaching(e, sent, [&](const auto& p) {
        ep::with_tokens(shape_.format, false, [&]<class Tokens>() {
          launch<dispatch_kernel<Tokens>>(rank, p, roles.warps(),
                                          dispatch_plan(p.window, roles, two_levels_).bytes);
        });
      });
    }
    const block_roles roles{sends ? 2 : 0, sends ? 0 : 2};
    const auto back = e.combine({e.own<bfloat16>(&local_cells::tokens), tokens_now}, roles, !sends,
                                ep::store_fp32{of_rank(rank).out.data(), shape_.hidden});
    reaching(e, back, [&]<class Params>(const Params& p) {
      launch<combine_body<ep::store_fp32, token_format::bf16, Params>>(
          rank, p, roles.warps(), combine_plan{shape_, 0, two_levels_}.bytes);
    });
  }

  chunk_settings settings_;
  bool two_levels_;
  int group_size_;
  std::array<std::vector<bfloat16>, num_ranks> tokens_;
  std::array<std::vector<std::int32_t>, num_ranks> ids_;
};

constexpr chunk_settings four_a_chunk{.chunk_tokens = 4};

/// What settings and schedules have in common.
template <class Result>
void expect_the_same_in_all_settings(token_format format, Result result) {
  forwarded_rounds usual{{}, format};
  const auto right = result(usual);
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
    s.least_sums = 16 * stages;
    ++random.seed;
    forwarded_rounds e{s, format, random};
    EXPECT_TRUE(result(e) == right) << name(format) << ", chunks of " << chunk << ", tiles of " << tile
                                    << ", pieces of " << piece;
  }
}

TEST(exchange_two_levels_settings, change_no_bit_of_a_result) {
  expect_the_same_in_all_settings(token_format::bf16, [](forwarded_rounds& e) {
    for (int round = 1; round <= 3; ++round) e.run();
    std::vector<std::vector<float>> outputs;
    for (const rank_memory& m : e.memory) {
      EXPECT_EQ(m.record.complete, 0u) << name(m.record.where);
      outputs.push_back(m.out);
    }
    return outputs;
  });
}

/// From each rank to each, in a round of all tokens and a dispatch of five behind it.
std::vector<std::uint64_t> puts_of(const chunk_settings& settings, bool two_levels) {
  forwarded_rounds e{settings, token_format::bf16, {}, two_levels};
  e.run();
  e.tokens_now = 5;
  e.run(forwarded_rounds::send, {}, forwarded_rounds::send_sums);
  std::vector<std::uint64_t> all;
  for (int from = 0; from < num_ranks; ++from)
    for (int to = 0; to < num_ranks; ++to) all.push_back(e.machine().sent_through_network(from, to).puts);
  return all;
}

/// What is known of them is of a round before.
TEST(exchange_two_levels_settings, put_no_token_of_a_chunk_behind_the_last) {
  for (const bool two_levels : {false, true})
    EXPECT_EQ(puts_of(four_a_chunk, two_levels), puts_of({}, two_levels)) << two_levels;
}

/// Behind them is noted who wants tokens of the next group, of which there are more than of one other.
TEST(exchange_two_levels_settings, forward_no_token_of_a_chunk_behind_the_last) {
  forwarded_rounds four{four_a_chunk, token_format::bf16, {}, true, 1},
      one{{}, token_format::bf16, {}, true, 1};
  for (forwarded_rounds* e : {&four, &one})
    for (int round = 1; round <= 2; ++round) e->run();
  for (int rank = 0; rank < num_ranks; ++rank) {
    EXPECT_EQ(four.of_rank(rank).record.complete, 0u) << name(four.of_rank(rank).record.where);
    EXPECT_TRUE(four.of_rank(rank).out == one.of_rank(rank).out) << rank;
  }
}

/// Of groups {0, 1}, {2, 3} and {4, 5}, as rank 3 awaits a chunk: whom it would name, and after how many deadlines.
TEST(exchange_two_levels_settings, let_a_forwarder_report_first_and_a_neighbour_s_chunk_be_awaited_as_any) {
  const ep::shape s{.num_experts = 6, .num_ranks = 6, .rank = 3, .top_k = 1, .hidden = 64, .max_tokens = 4};
  const endpoint e{{s, {}, nullptr}, {}, 2, true};
  const auto p = e.with_two_levels(e.dispatch({}, {}, true));
  const auto awaited = [&](int source) {
    const wait_site at = chunk_site(p, 1, source);
    return std::pair{at.peer, static_cast<int>(at.patience)};
  };
  EXPECT_EQ(awaited(2), (std::pair{2, 1}));
  EXPECT_EQ(awaited(0), (std::pair{2, 2})) << "rank 2 forwards it";
  EXPECT_EQ(awaited(5), (std::pair{5, 2})) << "it forwards this one itself";
}

TEST(exchange_two_levels_settings, change_no_bit_of_values_in_formats_of_fewer_bits) {
  using enum token_format;
  for (const token_format format : {mxfp8, mxfp4, nvfp4})
    expect_the_same_in_all_settings(format, [](forwarded_rounds& e) {
      e.run(forwarded_rounds::send, {}, forwarded_rounds::send_sums);
      return e.rows();
    });
}

/// Rank 0 does, to which it put no sum.
void expect_names_its_forwarder(const stuck_record& r) {
  ASSERT_EQ(r.complete, 1u);
  EXPECT_EQ(name(r.where), "combine.sum");
  EXPECT_EQ(r.peer, 2);
}

/// Memory of a round before each of its kernels, as it is without damage.
struct untouched {
  forwarded_rounds e;
  std::array<std::array<rank_memory, num_ranks>, forwarded_rounds::num_stages> before;
  explicit untouched(bool two_levels = true) : e{four_a_chunk, token_format::bf16, {}, two_levels} {
    e.run(forwarded_rounds::send, [&](int stage) { before[static_cast<std::size_t>(stage)] = e.memory; });
  }
  /// What rank 2, with two levels the forwarder of rank 0, reports when a word of its window is another one before the stage.
  stuck_record reported(int stage, std::size_t at, std::uint64_t word) {
    e.memory = before[static_cast<std::size_t>(stage)];
    e.word(2, at) = word;
    e.run(stage);
    return e.of_rank(2).record;
  }
  std::uint64_t word(int stage, std::size_t at) {
    e.memory = before[static_cast<std::size_t>(stage)];
    return e.word(2, at);
  }
};

/// Rank 0's tokens, which the word at `at` counts, are neither fewer nor more than it says.
void expect_other_counts_are_refused(untouched& all, std::size_t at) {
  const std::uint32_t told = arrival_word::count(all.word(forwarded_rounds::receive, at));
  ASSERT_GT(told, 1u);
  for (const std::uint32_t lie : {told - 1, told + 1}) {
    const stuck_record r = all.reported(forwarded_rounds::receive, at, arrival_word::of(1, lie));
    ASSERT_EQ(r.complete, 1u);
    EXPECT_EQ(name(r.where), "dispatch.damaged_chunk");
    EXPECT_EQ(r.peer, 0);
    EXPECT_EQ(r.seen, lie);
    EXPECT_EQ(r.expected, told);
  }
}

/// The first word by which rank 2 is told of a sum by `from` of one of its own tokens.
std::size_t word_of_a_sum(untouched& all, int from) {
  for (int token = 0; token < num_tokens; ++token)
    if (const std::size_t at = all.e.window().sum_word_at(all.e.shape(), from, token, 0);
        all.word(forwarded_rounds::receive_sums, at) != 0)
      return at;
  return 0;
}

/// Rank 0 puts its lines of ids, tokens and sums to rank 2 itself, and a word behind each.
TEST(exchange_groups_damage, a_flipped_bit_of_a_word_that_a_put_is_told_of_by_is_named) {
  untouched all{false};
  const cells window = all.e.window();
  const std::size_t sum = word_of_a_sum(all, 0);
  ASSERT_NE(sum, 0u);
  const struct {
    int stage;
    std::size_t at;
    const char* where;
  } words[] = {{forwarded_rounds::receive,
                far_cells{all.e.shape(), window}.id_word_at(all.e.shape(), window, 1, 0, 0), "dispatch.ids"},
               {forwarded_rounds::receive, window.token_word_at(all.e.shape(), 1, 0, 0), "dispatch.chunk"},
               {forwarded_rounds::receive_sums, sum, "combine.sum"}};
  for (const auto& word : words)
    for (int bit = 0; bit < 64; ++bit) {
      const stuck_record r =
          all.reported(word.stage, word.at, all.word(word.stage, word.at) ^ std::uint64_t{1} << bit);
      ASSERT_EQ(r.complete, 1u) << word.where << ", bit " << bit;
      EXPECT_EQ(name(r.where), word.where);
      EXPECT_EQ(r.peer, 0);
    }
}

TEST(exchange_groups_damage, a_word_that_says_another_number_of_put_tokens_is_refused) {
  untouched all{false};
  expect_other_counts_are_refused(all, all.e.window().token_word_at(all.e.shape(), 1, 0, 0));
}

TEST(exchange_groups_damage, a_flipped_bit_of_ids_that_were_put_is_named_or_does_no_harm) {
  untouched all{false};
  const std::size_t line = all.e.window().ids_at(all.e.shape(), 1, 0, 0);
  all.reported(forwarded_rounds::receive, line, all.word(forwarded_rounds::receive, line));
  const std::vector<float> right = all.e.of_rank(2).out;
  int named = 0;
  for (std::size_t at = line; at < line + line_access_bytes; at += sizeof(std::uint64_t))
    for (const int bit : {0, 7, 21, 38, 63}) {
      const stuck_record r = all.reported(forwarded_rounds::receive, at,
                                          all.word(forwarded_rounds::receive, at) ^ std::uint64_t{1} << bit);
      if (r.complete != 0) {
        ++named;
        EXPECT_EQ(r.peer, 0) << name(r.where);
      } else {
        EXPECT_EQ(all.e.of_rank(2).out, right) << "byte " << at - line << ", bit " << bit;
      }
    }
  EXPECT_GT(named, 0);
}

TEST(exchange_two_levels_damage, a_flipped_bit_of_a_word_for_a_forwarder_is_named) {
  untouched all;
  const cells window = all.e.window();
  // Of rank 0's first chunk; of rank 3's sum of rank 0's first token that it has an expert of.
  const std::size_t forward = all.e.groups().forward_word_at(window, 1, 0, 0);
  std::size_t sum = 0;
  for (int token = 0; token < num_tokens && sum == 0; ++token)
    if (const std::size_t at = window.sum_word_at(all.e.shape(), 1, token, 0);
        all.word(forwarded_rounds::receive_sums, at) != 0)
      sum = at;
  ASSERT_NE(sum, 0u);
  for (int bit = 0; bit < 64; ++bit) {
    const auto flipped = [&](int stage, std::size_t at) {
      return all.reported(stage, at, all.word(stage, at) ^ std::uint64_t{1} << bit);
    };
    const stuck_record of_chunk = flipped(forwarded_rounds::receive, forward);
    ASSERT_EQ(of_chunk.complete, 1u) << "bit " << bit;
    EXPECT_EQ(name(of_chunk.where), "dispatch.forward");
    EXPECT_EQ(of_chunk.peer, 0);
    const stuck_record of_sum = flipped(forwarded_rounds::receive_sums, sum);
    ASSERT_EQ(of_sum.complete, 1u) << "bit " << bit;
    EXPECT_EQ(name(of_sum.where), "combine.forward");
    EXPECT_EQ(of_sum.peer, 3);
    expect_names_its_forwarder(all.e.of_rank(0).record);
  }
}

/// Rank 0's first chunk is for rank 3, and all others, which do not come, for rank 2 that forwards.
TEST(exchange_two_levels_damage, a_chunk_is_forwarded_before_one_is_awaited_that_is_not_here) {
  forwarded_rounds e;
  std::fill(e.ids_of(0).begin(), e.ids_of(0).end(), e.shape().first_expert(2));
  std::fill_n(e.ids_of(0).begin(), top_k, e.shape().first_expert(3));
  e.run(
      forwarded_rounds::send,
      [&](int stage) {
        if (stage != forwarded_rounds::receive) return;
        for (int token = 1; token < num_tokens; ++token)
          e.word(2, e.groups().forward_word_at(e.window(), 1, 0, token)) = 0;
      },
      forwarded_rounds::send_sums);
  EXPECT_EQ(name(e.of_rank(2).record.where), "dispatch.forward");
  EXPECT_EQ(e.of_rank(3).record.complete, 0u) << name(e.of_rank(3).record.where);
}

/// What dispatch noted for combine: a forwarder sums up its own group's parts alone.
TEST(exchange_two_levels_damage, ranks_beyond_the_group_that_are_noted_as_wanting_a_token_are_not_awaited) {
  forwarded_rounds right, damaged;
  right.run();
  const group_local_cells at{damaged.shape(), {}, group};
  damaged.run(forwarded_rounds::send, [&](int stage) {
    if (stage != forwarded_rounds::receive_sums) return;
    auto* wanted = reinterpret_cast<std::uint32_t*>(damaged.of_rank(2).local.data() + at.wanted);
    for (int token = 0; token < num_ranks / group * num_tokens; ++token) wanted[token] |= ~0b1100u;
  });
  for (int rank = 0; rank < num_ranks; ++rank) {
    EXPECT_EQ(damaged.of_rank(rank).record.complete, 0u) << name(damaged.of_rank(rank).record.where);
    EXPECT_TRUE(damaged.of_rank(rank).out == right.of_rank(rank).out) << rank;
  }
}

/// A forwarder knows from ids what its group wants, and believes no other number.
TEST(exchange_two_levels_damage, a_forward_word_that_says_another_number_of_tokens_is_refused) {
  untouched all;
  expect_other_counts_are_refused(all, all.e.groups().forward_word_at(all.e.window(), 1, 0, 0));
}

}  // namespace
}  // namespace baton::test::two_levels
