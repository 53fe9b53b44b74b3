// What a peer says, and what lies in memory, is checked before it is believed: every bit flipped alone, at every moment
// between two kernels, and lies that carry a right check. Each ends in a rank that says so or in the right answer.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <tuple>

#include "exec/site_name.hpp"
#include "runtime/stuck_report.hpp"
#include "tests/support/small_exchange.hpp"

namespace baton::test {
namespace {

using setting = std::tuple<token_format, arrival_policy>;

/// A rank of two experts and one of one; all pairs are used, then some are not.
const small_exchange::routes first_routes{std::vector<std::int32_t>{0, 2, 1, 2}, {2, 0, 0, 1}};
const small_exchange::routes second_routes{std::vector<std::int32_t>{1, 0, 2, -1}, {0, 2}};

/// Where a part of a rank's memory begins, and how large it is.
struct part {
  std::string name;
  std::size_t begin, bytes;
};

std::vector<part> parts_of_window(const ep::shape& s) {
  const ep::window_layout w{s};
  const auto payload = static_cast<std::size_t>(s.payload_bytes()),
             scales = static_cast<std::size_t>(s.scale_bytes()),
             source = static_cast<std::size_t>(s.trailer_offset());
  std::vector<part> all;
  for (int message = 0; message < s.num_pairs() * s.max_tokens; ++message) {
    const std::size_t at = ep::message_offset(s, 0, message);
    all.push_back({"payload", at, payload});
    all.push_back({"scales", at + payload, scales});
    all.push_back({"padding", at + payload + scales, source - payload - scales});
    all.push_back({"source", at + source, sizeof(source_info)});
  }
  all.push_back({"reply", w.combine_buffer, w.dispatch_count - w.combine_buffer});
  all.push_back({"dispatch word", w.dispatch_count, w.combine_count - w.dispatch_count});
  all.push_back({"combine word", w.combine_count, w.bytes - w.combine_count});
  return all;
}

/// What the kernels leave for each other. What they leave for the experts (row_offsets, row_counts, the rows) is the
/// caller's to read.
std::vector<part> parts_of_local(const ep::shape& s) {
  const ep::local_layout l{s};
  const auto rows = static_cast<std::size_t>(s.max_rows()),
             choices = static_cast<std::size_t>(s.max_tokens * s.top_k);
  return {{"counters", l.counters,
           4 * static_cast<std::size_t>(ep_local_sync_counters::total_size(s.num_pairs()))},
          {"rounds", l.rounds, sizeof(ep::round_counters)},
          {"send slots", l.send_slots, 4 * choices},
          {"sent counts", l.sent_counts, 4 * static_cast<std::size_t>(s.num_experts)},
          {"sources", l.sources, rows * sizeof(source_info)}};
}

struct tally {
  int right = 0, named = 0, silent = 0;
};

class flips {
 public:
  explicit flips(const setting& s, bool by_puts = false)
      : exchange_{std::get<token_format>(s), std::get<arrival_policy>(s), 3, by_puts} {
    exchange_.run(1, first_routes);
    exchange_.run(2, second_routes, 0, [&](int stage) { before_[stage] = exchange_.memory; });
    after_ = exchange_.memory;
  }
  const ep::shape& shape() const { return exchange_.shape(); }

  /// Every bit of the parts, before every stage; of bulk data one bit in each 16 bytes.
  std::map<std::string, tally> in(const std::vector<part>& parts,
                                  std::vector<std::byte> rank_memory::*where) {
    std::map<std::string, tally> found;
    for (const part& p : parts) {
      const bool is_bulk = p.name == "payload" || p.name == "reply" || p.name == "padding";
      for (std::size_t bit = 0; bit < 8 * p.bytes; bit += is_bulk ? 131 : 1) {
        for (int rank = 0; rank < small_exchange::num_ranks; ++rank)
          for (int stage = 0; stage < small_exchange::num_stages; ++stage)
            count(found[p.name], rank, stage, [&](rank_memory& m) {
              (m.*where)[p.begin + bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
            });
      }
    }
    return found;
  }

 private:
  template <class Flip>
  void count(tally& t, int rank, int stage, Flip flip) {
    exchange_.memory = before_[stage];
    flip(exchange_.of_rank(rank));
    exchange_.run(2, second_routes, stage);
    bool is_silent = false, is_named = false;
    for (int r = 0; r < small_exchange::num_ranks; ++r) {
      const rank_memory& m = exchange_.of_rank(r);
      const bool has_named = m.record.complete != 0;
      is_named = is_named || has_named;
      // Each rank answers for itself.
      is_silent = is_silent || (!has_named && m.out != after_[static_cast<std::size_t>(r)].out);
    }
    ++(is_silent ? t.silent : is_named ? t.named : t.right);
  }

  small_exchange exchange_;
  std::array<std::deque<rank_memory>, small_exchange::num_stages> before_;
  std::deque<rank_memory> after_;
};

class exchange_damage : public testing::TestWithParam<setting> {};

TEST_P(exchange_damage, a_flipped_bit_of_a_window_is_named_or_does_no_harm_unless_it_is_of_data) {
  flips all{GetParam()};
  for (const auto& [name, t] : all.in(parts_of_window(all.shape()), &rank_memory::window)) {
    const bool is_data = name == "payload" || name == "scales" || name == "reply";
    if (is_data) {
      EXPECT_GT(t.silent, 0) << name << " carries no check: if it does now, say so in docs";
    } else {
      EXPECT_EQ(t.silent, 0) << name;
    }
    if (name == "source" || name == "dispatch word" || name == "combine word") {
      EXPECT_GT(t.named, 0) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(sim, exchange_damage,
                         testing::Combine(testing::Values(token_format::bf16, token_format::blockwise_fp8),
                                          testing::Values(arrival_policy::epoch, arrival_policy::sentinel)));

TEST(exchange_damage_beyond_the_group, a_flipped_bit_of_what_was_put_is_named_or_does_no_harm) {
  for (const arrival_policy policy : {arrival_policy::epoch, arrival_policy::sentinel}) {
    flips all{{token_format::bf16, policy}, true};
    std::vector<part> checked = parts_of_window(all.shape());
    std::erase_if(checked, [](const part& p) {
      return p.name != "source" && p.name != "dispatch word" && p.name != "combine word";
    });
    for (const auto& [name, t] : all.in(checked, &rank_memory::window)) {
      EXPECT_EQ(t.silent, 0) << name;
      EXPECT_GT(t.named, 0) << name;
    }
  }
}

TEST(exchange_damage_of_local_cells, a_flipped_bit_between_kernels_is_named_or_does_no_harm) {
  flips all{{token_format::bf16, arrival_policy::epoch}};
  for (const auto& [name, t] : all.in(parts_of_local(all.shape()), &rank_memory::local)) {
    EXPECT_EQ(t.silent, 0) << name;
    EXPECT_GT(t.named, 0) << name;
  }
}

/// A lie that carries a right check, told before `stage` of the second round; what `rank` reports.
template <class Lie>
stuck_record told(small_exchange& e, int stage, int rank, Lie lie) {
  e.run(1, first_routes);
  e.run(2, second_routes, 0, [&](int at) {
    if (at == stage) lie();
  });
  return e.of_rank(rank).record;
}

TEST(exchange_lies, more_rows_than_a_rank_may_send_are_refused_and_nothing_is_laid_out) {
  for (const arrival_policy policy : {arrival_policy::epoch, arrival_policy::sentinel}) {
    small_exchange e{token_format::bf16, policy, 12};  // six experts: rank 1 may fill two of them
    const stuck_record r = told(e, 1, 0, [&] {
      auto* words = e.in_window<std::uint64_t>(0, &ep::window_layout::dispatch_count);
      for (int expert = 0; expert < 6; ++expert)
        words[2 * expert + 1] =
            policy == arrival_policy::epoch ? epoch_arrival::word(2, 2) : sentinel_arrival::word(2, 2);
    });
    ASSERT_EQ(r.complete, 1u);
    EXPECT_EQ(
        stuck_text(r),
        "rank 0 refused what it found at dispatch.too_many_rows, from rank 1, round 2: expected 0x4, saw 0xc "
        "(block 0, warp 0). Memory of the communicator was overwritten, or that rank runs something else.");
  }
}

TEST(exchange_lies, a_count_that_is_not_what_was_sent_is_refused_by_the_rank_that_sent) {
  for (const int said : {0, 2}) {  // to expert 2, on rank 1, rank 0 sent one copy
    small_exchange e{token_format::bf16, arrival_policy::epoch, 3};
    const stuck_record r = told(e, 3, 0, [&] {
      e.in_window<std::uint64_t>(0, &ep::window_layout::combine_count)[1] =
          epoch_arrival::word(2, static_cast<std::uint32_t>(said));
    });
    ASSERT_EQ(r.complete, 1u);
    EXPECT_EQ(name(r.where), "combine.wrong_count");
    EXPECT_EQ(r.peer, 1);
    EXPECT_EQ(r.expected, 1u);
    EXPECT_EQ(r.seen, static_cast<std::uint64_t>(said));
  }
}

TEST(exchange_lies, a_source_of_an_earlier_round_of_another_expert_or_of_zeroes_is_refused) {
  for (const int lie : {0, 1, 2}) {
    small_exchange e{token_format::bf16, arrival_policy::epoch, 3};
    const stuck_record r = told(e, 2, 0, [&] {
      auto* sources = e.in_local<source_info>(0, &ep::local_layout::sources);
      if (lie == 0) sources[0] = {};
      if (lie == 1) sources[0].seal = ep::seal_of<ep::max_near_ranks>(sources[0], 0, 1);
      if (lie == 2) sources[0].seal = ep::seal_of<ep::max_near_ranks>(sources[0], 1, 2);
    });
    ASSERT_EQ(r.complete, 1u) << lie;
    EXPECT_EQ(name(r.where), "combine.stale_source");
    EXPECT_EQ(r.epoch, 2u);
  }
}

TEST(exchange_lies, a_source_with_a_right_seal_of_a_place_that_there_is_not_is_refused) {
  for (const source_info& lie : {source_info{small_exchange::max_tokens, 0, 0, 0}, source_info{-1, 0, 0, 0},
                                 source_info{0, small_exchange::top_k, 0, 0}, source_info{0, 0, 1, 0}}) {
    small_exchange e{token_format::bf16, arrival_policy::epoch, 3};
    const stuck_record r = told(e, 2, 0, [&] {
      auto* sources = e.in_local<source_info>(0, &ep::local_layout::sources);
      sources[0] = lie;
      sources[0].seal = ep::seal_of<ep::max_near_ranks>(lie, 0, 2);
    });
    ASSERT_EQ(r.complete, 1u) << lie.token << ' ' << lie.topk_slot << ' ' << lie.rank;
    EXPECT_EQ(name(r.where), "combine.stale_source");
  }
}

TEST(arrival_word, no_one_or_two_flipped_bits_of_epoch_and_count_leave_the_check_as_it_is) {
  constexpr std::uint64_t data = ~(std::uint64_t{0x7fff} << 17);
  for (const std::uint32_t epoch : {0u, 1u, 2u, 0x7fffffffu, 0xffffffffu, 0xdeadbeefu}) {
    for (const std::uint32_t count : {0u, 1u, 6u, 0xffffu, 0x10000u}) {
      const std::uint64_t word = epoch_arrival::word(epoch, count);
      EXPECT_TRUE(epoch_arrival::arrived(word, epoch, count));
      EXPECT_NE(word, epoch_arrival::idle);
      for (int i = 0; i < 64; ++i) {
        for (int j = 0; j <= i; ++j) {
          const std::uint64_t flipped = word ^ std::uint64_t{1} << i ^ (i == j ? 0 : std::uint64_t{1} << j);
          const bool is_of_data = ((word ^ flipped) & ~data) == 0;
          if (i != j && !is_of_data) continue;
          EXPECT_FALSE(
              epoch_arrival::arrived(flipped, static_cast<std::uint32_t>(flipped >> 32), arrival_word::most));
        }
      }
    }
  }
}

}  // namespace
}  // namespace baton::test
