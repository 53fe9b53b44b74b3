// pad_rows and unpad_rows on the CPU machine: every place against the formula, what is nobody's untouched, and what they refuse.
#include <gtest/gtest.h>

#include "baton/error.hpp"
#include "baton/expert_parallel.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/padded_rows_case.hpp"

namespace baton::test {
namespace {

TEST(padded_rows, lie_where_the_formula_says_and_what_no_row_has_is_untouched) {
  for (const int ranks : {1, 3, 8}) {
    const std::vector<world> worlds = world::local(ranks, device_kind::cpu);
    for (const padded_case& c : padded_cases()) {
      const padded_input in{c, ranks};
      const padded_result found = padded_run{worlds[0], c, in}.pad(), right = expected_places(c, in, ranks);
      EXPECT_TRUE(found.tokens == right.tokens) << text(c);
      EXPECT_TRUE(found.scales == right.scales) << text(c);
      EXPECT_EQ(found.counts, right.counts) << text(c);
      EXPECT_EQ(found.source_tokens, right.source_tokens) << text(c);
      EXPECT_EQ(found.ranges, right.ranges) << text(c);
    }
  }
}

TEST(padded_rows, go_back_to_the_rows_that_they_are_of) {
  const world where = world::local(1, device_kind::cpu)[0];
  for (const padded_case& c : padded_cases())
    EXPECT_TRUE((padded_run{where, c, {c, 1}}.unpad() == expected_rows(c))) << text(c);
}

TEST(padded_rows, counts_and_first_rows_of_nonsense_corrupt_nothing) {
  const world where = world::local(1, device_kind::cpu)[0];
  padded_case c{.capacity = 4, .counts = {0x7fffffff, -3, 2}, .offsets = {5, 2000, -3, 16}};
  padded_case meant = c;
  meant.counts = {11, 0, 2}, meant.offsets = {5, 16, 0, 16};
  const padded_input in{meant, 1};
  EXPECT_TRUE((padded_run{where, c, in}.pad() == expected_places(meant, in, 1)));
  EXPECT_EQ((padded_run{where, c, in}.unpad()), expected_rows(meant));
}

TEST(padded_rows, what_is_not_asked_for_is_left_out) {
  const world where = world::local(1, device_kind::cpu)[0];
  const padded_case c{.format = token_format::blockwise_fp8};
  padded_run run{where, c, {c, 1}};
  run.rows.sources = nullptr;
  device_buffer<std::int32_t> counts{where, 3};
  pad_rows(where, run.rows, {.capacity = 4, .row_counts = counts.data()});
  EXPECT_EQ(counts.to_host(), (std::vector<std::int32_t>{4, 0, 3}));
  run.rows.num_local_experts = 0;
  EXPECT_NO_THROW(pad_rows(where, run.rows, {.capacity = 4}));
  EXPECT_NO_THROW(unpad_rows(where, run.rows, {nullptr, 4}, nullptr));
}

TEST(padded_rows, of_a_round_come_back_as_what_combine_takes) {
  constexpr int ranks = 3, tokens = 5, hidden = 64, top_k = 2, most = 8, capacity = ranks * most;
  const std::vector<world> worlds = world::local(ranks, device_kind::cpu);
  for (const ep_layout layout : {ep_layout::per_rank, ep_layout::per_expert}) {
    ep_config config{.num_experts = 6, .top_k = top_k, .hidden = hidden, .num_max_tokens_per_rank = most};
    config.layout = layout;
    std::vector<expert_parallel> moe = expert_parallel::create_all(worlds, config);
    std::vector<device_buffer<bfloat16>> x;
    std::vector<device_buffer<std::int64_t>> idx;
    std::vector<device_buffer<float>> weights, out;
    for (int r = 0; r < ranks; ++r) {
      std::vector<bfloat16> values(tokens * hidden, bfloat16{static_cast<float>(r + 1)});
      std::vector<std::int64_t> ids;
      for (int i = 0; i < tokens; ++i) ids.insert(ids.end(), {(i + r) % 6, (i + r + 2) % 6});
      x.emplace_back(worlds[static_cast<std::size_t>(r)], values);
      idx.emplace_back(worlds[static_cast<std::size_t>(r)], ids);
      weights.emplace_back(worlds[static_cast<std::size_t>(r)], std::vector<float>(tokens * top_k, 0.5f));
      out.emplace_back(worlds[static_cast<std::size_t>(r)], std::vector<float>(tokens * hidden, -1.0f));
    }
    for (std::size_t r = 0; r < ranks; ++r)
      moe[r].dispatch_async({.tokens = x[r].data(),
                             .topk_idx = idx[r].data(),
                             .topk_weights = weights[r].data(),
                             .num_tokens = tokens});
    std::vector<device_buffer<bfloat16>> places, rows;
    for (std::size_t r = 0; r < ranks; ++r) {
      const received_tokens recv = moe[r].dispatch_wait();
      places.emplace_back(worlds[r], static_cast<std::size_t>(2 * capacity * hidden));
      rows.emplace_back(worlds[r], static_cast<std::size_t>(recv.max_rows * hidden));
      pad_rows(worlds[r], recv, {.capacity = capacity, .tokens = places[r].data()});
      unpad_rows(worlds[r], recv, {places[r].data(), capacity}, rows[r].data());
      moe[r].combine_async(rows[r].data());
    }
    for (std::size_t r = 0; r < ranks; ++r) {
      moe[r].combine_wait(nullptr, out[r].data());
      for (const float v : out[r].to_host()) EXPECT_EQ(v, static_cast<float>(r + 1));
    }
  }
}

struct padded_wrong_use {
  void (*spoil)(received_tokens& rows, padded_rows& out);
  const char* says;
};

TEST(padded_rows, what_is_wrong_is_refused_by_name_before_anything_runs) {
  const world where = world::local(1, device_kind::cpu)[0];
  const padded_case c{.format = token_format::blockwise_fp8, .hidden = 256};
  padded_run run{where, c, {c, 1}};
  device_buffer<std::uint8_t> some{where, 1 << 16};
  static std::uint8_t* at;
  at = some.data();
  for (const auto& [spoil, what] : {
           padded_wrong_use{[](received_tokens&rows, padded_rows&) { rows.format = token_format::mxfp4; },
                            "rows.format is mxfp4"},
           padded_wrong_use{[](received_tokens&rows, padded_rows&) { rows.token_rows = rows.row_counts; },
                            "rows.token_rows is given"},
           padded_wrong_use{[](received_tokens&rows, padded_rows&) { rows.num_local_experts = 1025; },
                            "rows.num_local_experts is 1025"},
           padded_wrong_use{[](received_tokens&rows, padded_rows&) { rows.hidden = 0; }, "rows.hidden is 0"},
           padded_wrong_use{[](received_tokens&rows, padded_rows&) { rows.max_rows = -1; },
                            "rows.max_rows is -1"},
           padded_wrong_use{[](received_tokens&rows, padded_rows&) { rows.row_counts = nullptr; },
                            "rows.row_counts is null"},
           padded_wrong_use{[](received_tokens&rows, padded_rows&) { rows.sources = nullptr; },
                            "rows.sources is null"},
           padded_wrong_use{[](received_tokens&rows, padded_rows&) { rows.tokens = nullptr; },
                            "rows.tokens is null"},
           padded_wrong_use{[](received_tokens&rows, padded_rows&) { rows.format = token_format::bf16; },
                            "out.scales is given; rows in bf16 have none"},
           padded_wrong_use{[](received_tokens&, padded_rows&out) { out.capacity = 0; }, "capacity is 0"},
           padded_wrong_use{[](received_tokens&, padded_rows&out) { out.num_sms = -1; }, "num_sms is -1"},
           padded_wrong_use{[](received_tokens&, padded_rows&out) { out.tokens = at + 8; },
                            "a multiple of 16 bytes"},
           padded_wrong_use{[](received_tokens&, padded_rows&out) { out.scales_as_exponents = true; },
                            "2 scales of a row; it must be a multiple of 4"},
       }) {
    received_tokens rows = run.rows;
    padded_rows out{
        .capacity = 4, .tokens = at, .scales = at, .source_tokens = reinterpret_cast<std::int32_t*>(at)};
    spoil(rows, out);
    try {
      pad_rows(where, rows, out);
      ADD_FAILURE() << "not refused: " << what;
    } catch (const invalid_argument& e) {
      EXPECT_TRUE(says(e.what(), "pad_rows: ", what)) << e.what();
    }
  }
  auto* const values = reinterpret_cast<bfloat16*>(at);
  for (const auto& [padded, out] : {std::pair{values, values + 1}, {values + 1, values}, {nullptr, values}})
    EXPECT_THROW(unpad_rows(where, run.rows, {padded, 4}, out), invalid_argument);
  EXPECT_THROW(unpad_rows(where, run.rows, {values, 0}, values), invalid_argument);
}

}  // namespace
}  // namespace baton::test
