// Layout per_rank in memory of the test's own, by lines and by flags: ids and flags with a flipped bit, rows and counts that
// cannot be, and rounds that need more than 32 bits.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>

#include "exec/site_name.hpp"
#include "kernels/ep/outputs.hpp"
#include "kernels/ep/per_rank/by_flags.hpp"
#include "kernels/ep/per_rank/combine.hpp"
#include "kernels/ep/per_rank/dispatch.hpp"
#include "kernels/ep/per_rank/endpoint.hpp"
#include "tests/support/flipped_ids.hpp"
#include "tests/support/staged_rounds.hpp"

namespace baton::test::lines {
namespace {

using namespace ep::per_rank;

constexpr int num_ranks = 2, max_tokens = 3, hidden = 8;
using routing_of_ranks = std::array<std::vector<std::int32_t>, num_ranks>;
const routing_of_ranks usual_routes{std::vector<std::int32_t>{0, 2, 1, 2, 2, 2}, {2, 0, -1, 1}};

/// Two ranks whose experts return what they get.
template <class Way, class Endpoint>
class split_rounds : public staged_rounds<num_ranks> {
 public:
  split_rounds()
      : staged_rounds{{.num_experts = 3,
                       .num_ranks = num_ranks,
                       .top_k = 2,
                       .hidden = hidden,
                       .max_tokens = max_tokens,
                       .format = token_format::bf16}} {
    take_memory(window().bytes(), local_cells{shape_}.bytes);
  }

  void send_tokens_of(float value) { send_tokens_of(bfloat16{value}); }
  void send_tokens_of(bfloat16 value) { tokens_.assign(tokens_.size(), value); }
  void route(const routing_of_ranks& routes) { routes_ = routes; }
  typename Way::cells window() const { return end().window_cells(); }
  template <class T>
  T* own(int rank, std::size_t local_cells::*offset) {
    return end_of(rank, end()).template own<T>(offset);
  }

 private:
  Endpoint end() const { return Endpoint::of(shape_); }
  template <class Kernel, class Params>
  void launch_of_two(int rank, const Params& p, std::size_t shared_bytes) {
    launch<Kernel>(rank, typename Kernel::params{p}, 2, shared_bytes);
  }
  void enqueue(int at, int rank) override {
    const Endpoint e = end_of(rank, end());
    const auto& ids = routes_[static_cast<std::size_t>(rank)];
    const int tokens = static_cast<int>(ids.size()) / shape_.top_k;
    if (at == send || at == receive) {
      const int senders = at == send ? 1 : 0;
      const auto p = e.dispatch({tokens_.data(), ids.data(), nullptr, tokens, {}}, senders, at == receive);
      return launch_of_two<dispatch_kernel<ep::bf16_tokens, 0, std::int32_t, Way>>(
          rank, p, dispatch_plan{shape_, senders}.bytes);
    }
    const auto* rows = e.template own<bfloat16>(&local_cells::tokens);
    const auto p = e.combine({rows, tokens}, {at == send_sums ? 2 : 0}, at == receive_sums,
                             ep::store_fp32{of_rank(rank).out.data(), hidden});
    launch_of_two<combine_kernel<ep::store_fp32, 0, Way>>(rank, p, 0);
  }

  routing_of_ranks routes_ = usual_routes;
  std::vector<bfloat16> tokens_ = std::vector<bfloat16>(max_tokens * hidden, bfloat16{1.5f});
};

using rounds_in_lines = split_rounds<by_lines, endpoint>;
using rounds_by_flags = split_rounds<by_flags, flag_endpoint>;

template <class Rounds>
class exchange_per_rank_damage : public testing::Test {};
template <class Rounds>
class exchange_per_rank_epochs : public testing::Test {};
using every_way = testing::Types<rounds_in_lines, rounds_by_flags>;
TYPED_TEST_SUITE(exchange_per_rank_damage, every_way, );
TYPED_TEST_SUITE(exchange_per_rank_epochs, every_way, );

TYPED_TEST(exchange_per_rank_damage, a_flipped_bit_of_ids_is_named_or_does_no_harm) {
  TypeParam e;
  expect_flipped_ids_are_named_or_do_no_harm(e, e.window(), 5);
}

/// Bits of a part of rank 0's own memory or window, each flipped alone before each kernel: how many changed a result that
/// its rank did not refuse.
template <class Rounds>
int silent_flips(std::size_t begin, std::size_t bytes, std::vector<std::byte> rank_memory::*where,
                 std::size_t step) {
  Rounds e;
  e.run();
  e.send_tokens_of(2.5f);
  std::array<std::array<rank_memory, num_ranks>, Rounds::num_stages> before;
  e.run(Rounds::send, [&](int stage) { before[static_cast<std::size_t>(stage)] = e.memory; });
  const auto right = e.memory;
  int silent = 0;
  for (int stage = 0; stage < Rounds::num_stages; ++stage) {
    for (std::size_t bit = 0; bit < 8 * bytes; bit += step) {
      e.memory = before[static_cast<std::size_t>(stage)];
      (e.of_rank(0).*where)[begin + bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
      e.run(stage);
      for (int rank = 0; rank < num_ranks; ++rank)
        silent += e.of_rank(rank).record.complete == 0 &&
                          e.of_rank(rank).out != right[static_cast<std::size_t>(rank)].out
                      ? 1
                      : 0;
    }
  }
  return silent;
}

TYPED_TEST(exchange_per_rank_damage, data_and_what_a_rank_notes_for_itself_carry_no_check) {
  const ep::shape s = TypeParam{}.shape();
  const local_cells own{s};
  const auto window = TypeParam{}.window();
  for (const std::size_t at : {own.token_counts, own.rank_sets, own.choices, own.entries, own.own_sums})
    EXPECT_GT(silent_flips<TypeParam>(at, at == own.token_counts ? 8 : 16, &rank_memory::local, 1), 0)
        << at << ": if it carries one now, say so in docs";
  const int wrong_rounds = silent_flips<TypeParam>(own.epochs, 16, &rank_memory::local, 1);
  if (std::is_same_v<TypeParam, rounds_by_flags>)
    EXPECT_EQ(wrong_rounds, 0) << "what a round before was told is cleared";
  else
    EXPECT_GT(wrong_rounds, 0);
  for (const std::size_t at : {window.token_at(s, 0, 1, 0), window.sum_at(s, 1, 0)})
    EXPECT_GT(silent_flips<TypeParam>(at, 512, &rank_memory::window, 7), 0);
}

TEST(exchange_flags_damage, a_flag_with_a_flipped_bit_is_named_or_does_no_harm) {
  const ep::shape s = rounds_by_flags{}.shape();
  const flag_cells window = rounds_by_flags{}.window();
  constexpr std::size_t bytes = sizeof(std::uint64_t);
  for (std::uint64_t round = 0; round < 2; ++round)
    EXPECT_EQ(
        silent_flips<rounds_by_flags>(window.cleared_at(s, round, 0), 2 * bytes, &rank_memory::window, 3), 0);
  for (const std::size_t line : {window.token_at(s, 0, 1, 0), window.sum_at(s, 1, 0)})
    EXPECT_EQ(silent_flips<rounds_by_flags>(line + line_bytes - bytes, bytes, &rank_memory::window, 1), 0);
}

TEST(exchange_flags_damage, a_line_of_another_round_is_named) {
  const ep::shape s = rounds_by_flags{}.shape();
  const flag_cells window = rounds_by_flags{}.window();
  const auto named_at = [&](int wanted, std::size_t line) {
    rounds_by_flags e;
    e.run(rounds_by_flags::send, [&](int stage) {
      const std::uint64_t older = cleared_line_flag(7);
      if (stage == wanted)
        std::memcpy(e.of_rank(0).window.data() + line + line_bytes - sizeof older, &older, sizeof older);
    });
    const stuck_record& r = e.of_rank(0).record;
    return r.complete == 1 ? std::string{name(r.where)} : "nothing";
  };
  EXPECT_EQ(named_at(rounds_by_flags::receive, window.token_at(s, 1, 1, 0)), "dispatch.words");
  EXPECT_EQ(named_at(rounds_by_flags::receive_sums, window.sum_at(s, 1, 0)), "combine.words");
}

/// Words of units that are not 0, in both windows.
int words_left(rounds_by_flags& e) {
  const std::size_t first = e.window().token_at(e.shape(), 0, 0, 0),
                    behind = e.window().cleared_at(e.shape(), 0, 0);
  int left = 0;
  for (const rank_memory& m : e.memory) {
    for (std::size_t at = first; at < behind; at += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, m.window.data() + at, sizeof word);
      left += word != 0;
    }
  }
  return left;
}

TEST(exchange_flags_words, of_units_are_all_0_behind_every_round_however_many_tokens_it_has) {
  rounds_by_flags e;
  const routing_of_ranks rounds[] = {usual_routes,
                                     {std::vector<std::int32_t>{2, 2}, {1, 0, 0, 1, 2, -1}},
                                     {std::vector<std::int32_t>{}, {-1, -1, 2, 1}},
                                     {std::vector<std::int32_t>{0, 1, 1, 0, 2, 1}, {}},
                                     {std::vector<std::int32_t>{-1, 0}, {2, 1}}};
  for (int nth = 0; nth < 15; ++nth) {
    e.route(rounds[nth % 5]);
    e.run(rounds_by_flags::send, [&](int stage) {
      if (stage == rounds_by_flags::receive) {
        EXPECT_GT(words_left(e), 0) << "round " << nth;
      }
    });
    for (int rank = 0; rank < num_ranks; ++rank) EXPECT_EQ(e.of_rank(rank).record.complete, 0u) << nth;
    EXPECT_EQ(words_left(e), 0) << "round " << nth;
  }
}

TEST(exchange_flags_words, of_64_ones_arrive_and_are_no_numbers) {
  rounds_by_flags e;
  e.send_tokens_of(bfloat16::from_bits(0xffff));
  e.run();
  for (int rank = 0; rank < num_ranks; ++rank) EXPECT_EQ(e.of_rank(rank).record.complete, 0u);
  for (const float v : e.of_rank(0).out) EXPECT_TRUE(std::isnan(v));
  EXPECT_EQ(words_left(e), 0);
}

TEST(exchange_flags_words, with_a_flipped_bit_from_between_two_rounds_are_overwritten_by_data) {
  rounds_by_flags e;
  e.run();
  const auto first = e.of_rank(0).out;
  const std::size_t begin = e.window().token_at(e.shape(), 0, 0, 0),
                    behind = e.window().cleared_at(e.shape(), 0, 0);
  for (std::size_t bit = 0; bit < 8 * (behind - begin); bit += 61) {
    e.of_rank(0).window[begin + bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    for (int round = 0; round < 2; ++round) {
      e.run();
      ASSERT_EQ(e.of_rank(0).record.complete, 0u) << bit;
      ASSERT_EQ(e.of_rank(0).out, first) << bit;
    }
  }
}

TEST(exchange_flags_damage, a_rank_that_gave_up_clears_nothing_more_tells_nothing_more_and_is_named) {
  rounds_by_flags e;
  e.run(rounds_by_flags::send, [&](int stage) {
    if (stage == rounds_by_flags::receive) e.of_rank(0).abort = 1;
  });
  const stuck_record& r = e.of_rank(1).record;
  ASSERT_EQ(r.complete, 1u);
  EXPECT_EQ(name(r.where), "combine.words");
  EXPECT_EQ(r.peer, 0);
  const auto window = e.of_rank(1).window;
  e.run();
  EXPECT_EQ(e.of_rank(1).window, window);
}

TEST(exchange_flags_damage, more_tokens_of_a_rank_than_there_may_be_are_refused) {
  for (const std::uint64_t tokens : {std::uint64_t{max_tokens + 1}, id_word::data_mask}) {
    rounds_by_flags e;
    e.run(rounds_by_flags::send, [&](int stage) {
      if (stage != rounds_by_flags::receive) return;
      auto* words = e.of_rank(0).window.data() + e.window().ids_at(e.shape(), 1, 1, 0);
      const std::uint64_t word = id_word::of(1, tokens);
      std::memcpy(words + sizeof word * count_lane, &word, sizeof word);
    });
    const stuck_record& r = e.of_rank(0).record;
    ASSERT_EQ(r.complete, 1u) << tokens;
    EXPECT_EQ(name(r.where), "dispatch.damaged_ids");
    EXPECT_EQ(r.peer, 1);
  }
}

/// What rank 0 reports of what it finds at combine_async.
template <class Rounds, class Damage>
stuck_record reported_by_combine(Damage damage) {
  Rounds e;
  e.run(Rounds::send, [&](int stage) {
    if (stage == Rounds::send_sums) damage(e);
  });
  return e.of_rank(0).record;
}

TYPED_TEST(exchange_per_rank_damage, a_row_that_there_is_not_is_refused) {
  for (const int row : {-1, TypeParam{}.shape().max_rows(), 1 << 30}) {
    const stuck_record r = reported_by_combine<TypeParam>([&](TypeParam& e) {
      e.template own<entry>(0, &local_cells::entries)[0].row =
          row;  // token 0 of rank 0, whose first choice is expert 0
    });
    ASSERT_EQ(r.complete, 1u) << row;
    EXPECT_EQ(name(r.where), "combine.damaged_row");
  }
}

TYPED_TEST(exchange_per_rank_damage, more_tokens_of_a_rank_than_there_may_be_are_refused) {
  for (const int tokens : {-1, max_tokens + 1, 1 << 30}) {
    const stuck_record r = reported_by_combine<TypeParam>(
        [&](TypeParam& e) { e.template own<std::int32_t>(0, &local_cells::token_counts)[1] = tokens; });
    ASSERT_EQ(r.complete, 1u) << tokens;
    EXPECT_EQ(name(r.where), "combine.damaged_count");
    EXPECT_EQ(r.peer, 1);
  }
}

TYPED_TEST(exchange_per_rank_epochs, are_counted_beyond_32_bits) {
  TypeParam e;
  e.run();
  const auto first = e.memory;
  EXPECT_EQ(first[0].out, (std::vector<float>(max_tokens * hidden, 3.0f)));
  constexpr std::uint64_t before = (std::uint64_t{1} << 32) - 2;
  for (int rank = 0; rank < num_ranks; ++rank)
    *e.template own<round_epochs>(rank, &local_cells::epochs) = {before, before};
  for (int round = 1; round <= 4; ++round) {
    for (rank_memory& m : e.memory) m.out.assign(m.out.size(), -1.0f);
    e.run();
    for (int rank = 0; rank < num_ranks; ++rank) {
      EXPECT_EQ(e.of_rank(rank).record.complete, 0u);
      EXPECT_EQ(e.template own<round_epochs>(rank, &local_cells::epochs)->combined,
                before + static_cast<std::uint64_t>(round));
    }
    EXPECT_EQ(e.of_rank(0).out, first[0].out);
  }
}

}  // namespace
}  // namespace baton::test::lines
