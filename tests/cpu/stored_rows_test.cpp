// Rows that a dispatch left, made what is multiplied: the kernel on the CPU machine against what rows stand for, bit for bit.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/fp8_rows.hpp"
#include "baton/quantise.hpp"
#include "kernels/row_formats/launch.hpp"

namespace baton {
namespace {

constexpr token_format stored_formats[] = {token_format::bf16, token_format::blockwise_fp8,
                                           token_format::mxfp8, token_format::mxfp4, token_format::nvfp4};

/// Two experts' rows with some of nobody between and around them.
struct stored_case {
  int hidden, max_rows = 16;
  world cpu = world::local(1, device_kind::cpu)[0];
  std::vector<std::int32_t> offsets{2, 9, 14}, counts{5, 3}, token_rows{};
  std::vector<bfloat16> given;
  std::vector<std::byte> values, scales;
  float tensor_scale = 0.013f;
  received_tokens rows{};

  stored_case(token_format format, int hidden_values, bool by_token)
      : hidden{hidden_values},
        given(static_cast<std::size_t>(max_rows * hidden)),
        values(given.size() * 4),
        scales(given.size()) {
    std::mt19937 random{5};
    std::normal_distribution<float> normal;
    for (bfloat16& v : given) v = bfloat16{normal(random)};
    rows.row_offsets = offsets.data();
    rows.row_counts = counts.data();
    rows.num_local_experts = 2;
    rows.max_rows = max_rows;
    rows.format = format;
    rows.hidden = hidden;
    rows.tokens = values.data();
    if (format != token_format::bf16) rows.scales = scales.data();
    if (format == token_format::nvfp4) rows.tensor_scale = &tensor_scale;
    if (format == token_format::bf16) {
      std::memcpy(values.data(), given.data(), given.size() * sizeof(bfloat16));
    } else {
      quantise(cpu, given.data(), hidden, {.max_rows = max_rows},
               {format, values.data(), scales.data(), scale_layout::row_major, rows.tensor_scale});
      cpu.synchronize();
    }
    if (by_token) move_apart();
  }

  /// The last row first, scales beside the values.
  void move_apart() {
    const format_facts facts = facts_of(rows.format);
    const int of_values = facts.row_bytes(hidden), of_scales = facts.row_scales(hidden) * facts.scale_bytes;
    const std::vector<std::byte> before = values;
    rows.row_bytes = of_values + (of_scales + 15) / 16 * 16 + 16;
    values.assign(static_cast<std::size_t>(rows.row_bytes * max_rows), std::byte{0x7f});
    for (int r = 0; r < max_rows; ++r) {
      token_rows.push_back(max_rows - 1 - r);
      std::byte* to = values.data() + token_rows.back() * rows.row_bytes;
      std::memcpy(to, before.data() + r * of_values, static_cast<std::size_t>(of_values));
      std::memcpy(to + of_values, scales.data() + r * of_scales, static_cast<std::size_t>(of_scales));
    }
    rows.tokens = values.data();
    if (rows.scales != nullptr) rows.scales = values.data() + of_values;
    rows.token_rows = token_rows.data();
    rows.max_token_rows = max_rows;
  }

  bool is_of_an_expert(int row) const { return (row >= 2 && row < 7) || (row >= 9 && row < 12); }

  void expect_bf16() const {
    std::vector<bfloat16> out(given.size(), bfloat16{-1.0f});
    row_formats::restore(cpu, rows, {.format = token_format::bf16, .values = out.data()}, {});
    cpu.synchronize();
    std::vector<float> right(static_cast<std::size_t>(hidden), -1.0f);
    for (int r = 0; r < max_rows; ++r) {
      if (is_of_an_expert(r)) widen_row(rows, static_cast<std::size_t>(r), right.data());
      for (std::size_t i = 0; i < right.size(); ++i)
        ASSERT_EQ(out[static_cast<std::size_t>(r) * right.size() + i],
                  bfloat16{is_of_an_expert(r) ? right[i] : -1.0f})
            << name(rows.format) << ", row " << r << ", " << i;
    }
  }

  void expect_fp8() const {
    const std::size_t n = static_cast<std::size_t>(hidden), blocks = fp8_scales(n),
                      m = static_cast<std::size_t>(max_rows);
    std::vector<float8_e4m3> out(given.size(), float8_e4m3{-1.0f});
    std::vector<float> scales_out(m * blocks, -1.0f), right(n), right_scales(blocks);
    row_formats::restore(cpu, rows,
                         {.format = token_format::blockwise_fp8,
                          .values = out.data(),
                          .scales = scales_out.data(),
                          .layout = scale_layout::column_major},
                         {});
    cpu.synchronize();
    for (std::size_t r = 0; r < m; ++r) {
      const bool is_row = is_of_an_expert(static_cast<int>(r));
      if (is_row) fp8_row(rows, r, right.data(), right_scales.data());
      for (std::size_t i = 0; i < n; ++i)
        ASSERT_EQ(static_cast<float>(out[r * n + i]), is_row ? right[i] : -1.0f)
            << name(rows.format) << ", row " << r << ", " << i;
      for (std::size_t b = 0; b < blocks; ++b)
        ASSERT_EQ(scales_out[b * m + r], is_row ? right_scales[b] : -1.0f)
            << name(rows.format) << ", row " << r;
    }
  }
};

TEST(stored_rows, of_every_format_become_bf16_where_they_lie_by_expert_and_by_token) {
  for (const token_format format : stored_formats)
    for (const bool by_token : {false, true})
      if (format != token_format::bf16) stored_case{format, 384, by_token}.expect_bf16();
}

TEST(stored_rows, of_every_format_become_blocks_of_fp8_the_last_of_which_may_be_shorter) {
  for (const bool by_token : {false, true}) {
    for (const token_format format : stored_formats)
      if (format != token_format::blockwise_fp8) stored_case{format, 384, by_token}.expect_fp8();
    stored_case{token_format::bf16, 208, by_token}.expect_fp8();
  }
}

TEST(stored_rows, a_damaged_place_of_a_token_leads_to_no_other_memory) {
  constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max();
  for (const std::int32_t damaged : {-1, 16, most, -most - 1}) {
    stored_case given{token_format::mxfp8, 256, true};
    given.token_rows[3] = damaged;
    given.expect_bf16();
  }
}

}  // namespace
}  // namespace baton
