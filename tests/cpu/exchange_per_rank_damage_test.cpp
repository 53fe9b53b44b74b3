// Layout per_rank in memory of the test's own, by lines and by flags: ids and flags with a flipped bit, rows and counts that
// cannot be, and rounds that need more than 32 bits.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>

#include "kernels/ep/outputs.hpp"
#include "kernels/ep/per_rank/by_flags.hpp"
#include "kernels/ep/per_rank/combine.hpp"
#include "kernels/ep/per_rank/dispatch.hpp"
#include "kernels/ep/per_rank/endpoint.hpp"
#include "sim/context.hpp"
#include "tests/support/flipped_ids.hpp"

namespace baton::test::lines {
namespace {

using namespace ep::per_rank;

constexpr int num_ranks = 2, max_tokens = 3, hidden = 8;
const std::array<std::vector<std::int32_t>, num_ranks> routes{std::vector<std::int32_t>{0, 2, 1, 2, 2, 2},
                                                              {2, 0, -1, 1}};

/// Two ranks whose experts return what they get. A round is four kernels a rank, and a test may change memory before each.
template <class Way, class Endpoint, int few_tokens = 0>
class split_rounds {
 public:
  enum stage { send, receive, send_sums, receive_sums, num_stages };

  split_rounds() {
    const local_cells own{shape_};
    for (rank_memory& m : memory) {
      m.window.resize(window().bytes());
      m.local.resize(own.bytes);
      m.out.resize(max_tokens * hidden);
    }
  }

  void run(int first_stage = send, const std::function<void(int)>& before_stage = {}) {
    for (int at = first_stage; at < num_stages; ++at) {
      if (before_stage) before_stage(at);
      for (int rank = 0; rank < num_ranks; ++rank) enqueue(at, rank);
      for (int rank = 0; rank < num_ranks; ++rank) machine_.run(rank);
    }
  }

  void send_tokens_of(float value) { tokens_.assign(tokens_.size(), bfloat16{value}); }
  const ep::shape& shape() const { return shape_; }
  typename Way::cells window() const { return end().window_cells(); }
  rank_memory& of_rank(int rank) { return memory[static_cast<std::size_t>(rank)]; }
  template <class T>
  T* own(int rank, std::size_t local_cells::*offset) {
    return end_of(rank).template own<T>(offset);
  }

  std::array<rank_memory, num_ranks> memory;

 private:
  Endpoint end() const {
    Endpoint e = Endpoint::of(shape_);
    if constexpr (requires { e.few_tokens; }) e.few_tokens = few_tokens;
    return e;
  }
  Endpoint end_of(int rank) {
    Endpoint e = end();
    e.local = of_rank(rank).local.data();
    e.s.rank = rank;
    for (int r = 0; r < num_ranks; ++r) e.windows.at[r] = of_rank(r).window.data();
    return e;
  }
  template <class Kernel, class Params>
  void launch(int rank, const Params& p, std::size_t shared_bytes) {
    rank_memory& m = of_rank(rank);
    const sim::grid grid{2, 2, shared_bytes, {.abort = &m.abort, .record = &m.record}};
    machine_.launch(rank, grid, [p = typename Kernel::params{p}](sim::context& x) { Kernel::run(x, p); });
  }
  void enqueue(int at, int rank) {
    const Endpoint e = end_of(rank);
    const auto& ids = routes[static_cast<std::size_t>(rank)];
    const int tokens = static_cast<int>(ids.size()) / shape_.top_k;
    if (at == send || at == receive) {
      const int senders = at == send ? 1 : 0;
      const auto p = e.dispatch({tokens_.data(), ids.data(), nullptr, tokens, {}}, senders, at == receive);
      return launch<dispatch_kernel<ep::bf16_tokens, 0, std::int32_t, Way>>(
          rank, p, dispatch_plan{shape_, senders}.bytes);
    }
    const auto* rows = e.template own<bfloat16>(&local_cells::tokens);
    const auto p = e.combine({rows, tokens}, at == send_sums ? 2 : 0, at == receive_sums,
                             ep::store_fp32{of_rank(rank).out.data(), hidden});
    launch<combine_kernel<ep::store_fp32, 0, Way>>(rank, p, 0);
  }

  ep::shape shape_{.num_experts = 3,
                   .num_ranks = num_ranks,
                   .top_k = 2,
                   .hidden = hidden,
                   .max_tokens = max_tokens,
                   .format = token_format::bf16};
  sim::machine machine_{num_ranks};
  std::vector<bfloat16> tokens_ = std::vector<bfloat16>(max_tokens * hidden, bfloat16{1.5f});
};

using rounds_in_lines = split_rounds<by_lines, endpoint>;
using rounds_by_flags = split_rounds<by_flags, flag_endpoint>;
using rounds_in_words = split_rounds<by_flags, flag_endpoint, max_tokens>;

template <class Rounds>
class exchange_per_rank_damage : public testing::Test {};
template <class Rounds>
class exchange_per_rank_epochs : public testing::Test {};
using every_way = testing::Types<rounds_in_lines, rounds_by_flags, rounds_in_words>;
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
  for (const std::size_t at :
       {own.epochs, own.token_counts, own.rank_sets, own.choices, own.entries, own.own_sums})
    EXPECT_GT(silent_flips<TypeParam>(at, at == own.token_counts ? 8 : 16, &rank_memory::local, 1), 0)
        << at << ": if it carries one now, say so in docs";
  std::size_t tokens = window.token_at(s, 0, 1, 0), sums = window.sum_at(s, 1, 0);
  if constexpr (std::is_same_v<TypeParam, rounds_in_words>)
    tokens = window.token_words_at(s, 0, 1, 0), sums = window.sum_words_at(1, 0);
  EXPECT_GT(silent_flips<TypeParam>(tokens, 512, &rank_memory::window, 7), 0);
  EXPECT_GT(silent_flips<TypeParam>(sums, 512, &rank_memory::window, 7), 0);
}

TEST(exchange_flags_damage, a_flag_with_a_flipped_bit_is_named_or_does_no_harm) {
  const ep::shape s = rounds_by_flags{}.shape();
  const flag_cells window = rounds_by_flags{}.window();
  const std::size_t begin = window.token_flag_at(s, 0, 0, 0);
  EXPECT_EQ(silent_flips<rounds_by_flags>(begin, window.bytes() - begin, &rank_memory::window, 13), 0);
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

TEST(exchange_flags_damage, a_word_with_a_flipped_bit_of_its_round_is_named_or_does_no_harm) {
  const ep::shape s = rounds_in_words{}.shape();
  const flag_cells window = rounds_in_words{}.window();
  constexpr std::size_t words = 64, bytes = sizeof(std::uint64_t);
  for (const std::size_t begin : {window.token_words_at(s, 0, 1, 0), window.sum_words_at(1, 0)})
    for (std::size_t word = 0; word < words; word += 9)
      EXPECT_EQ(
          silent_flips<rounds_in_words>(begin + word * bytes + bytes / 2, bytes / 2, &rank_memory::window, 5),
          0);
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
