// quantise and fused_silu on the CPU: every source, format and layout against the rules, and what they refuse.
#include <gtest/gtest.h>

#include "baton/error.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/row_formats_case.hpp"

namespace baton::test {
namespace {

constexpr token_format all_formats[] = {token_format::bf16, token_format::blockwise_fp8, token_format::mxfp8,
                                        token_format::mxfp4, token_format::nvfp4};

world cpu() {
  return world::local(1, device_kind::cpu)[0];
}

bool is_served(const rows_case& c) {
  if (c.format == token_format::bf16) return c.from != rows_from::bf16 && c.layout == scale_layout::row_major;
  return c.layout != scale_layout::tiled_128x4 || facts_of(c.format).scale_bytes == 1;
}

TEST(row_formats, every_source_format_and_layout_is_stored_as_the_rules_say) {
  const world where = cpu();
  for (const rows_from from : {rows_from::bf16, rows_from::fp32, rows_from::silu}) {
    for (const token_format format : all_formats) {
      for (const scale_layout layout :
           {scale_layout::row_major, scale_layout::column_major, scale_layout::tiled_128x4}) {
        for (const auto& [rows, columns] : {std::pair{133, 128}, {20, 640}}) {
          const rows_case c{from, format, layout, columns,
                            {},   {},     rows,   format == token_format::nvfp4 ? 0.02f : 1.0f};
          if (!is_served(c)) continue;
          const std::vector<float> in = uneven_values(c, 5);
          rows_run run{where, c};
          EXPECT_EQ(first_wrong(c, from == rows_from::silu ? activated(c, in) : in, run(in)), "") << text(c);
        }
      }
    }
  }
}

TEST(row_formats, odd_numbers_of_values_fill_a_part_of_a_warp) {
  const world where = cpu();
  for (const token_format format : all_formats) {
    for (const int multiples : {1, 3, 9}) {
      rows_case c{
          rows_from::fp32, format, scale_layout::row_major, facts_of(format).multiple * multiples, {}, {}, 3};
      const std::vector<float> in = uneven_values(c, 6);
      EXPECT_EQ(first_wrong(c, in, rows_run{where, c}(in)), "") << text(c);
    }
  }
}

TEST(row_formats, only_rows_of_ranges_are_touched_and_what_the_device_says_is_bounded) {
  const world where = cpu();
  struct ranges {
    std::vector<std::int32_t> counts, firsts;
  };
  std::vector<std::int32_t> many(1024, 1), spread;
  for (std::int32_t i = 0; i < 1024; ++i) spread.push_back(i);
  for (const auto& [counts, firsts] :
       {ranges{{7}, {}}, ranges{{0}, {}}, ranges{{3, 0, 5, 1}, {2, 6, 6, 1023}},
        ranges{{-4, 2000000000}, {5, 1000}}, ranges{{1, 2}, {-3, 2000}}, ranges{many, spread}}) {
    for (const token_format format : {token_format::mxfp4, token_format::blockwise_fp8}) {
      rows_case c{rows_from::bf16, format, scale_layout::column_major, 128, counts, firsts, 1024};
      const std::vector<float> in = uneven_values(c, 7);
      rows_case meant = c;  // as it is bounded
      for (auto& first : meant.firsts) first = std::max(first, 0);
      for (auto& count : meant.counts) count = std::min(std::max(count, 0), 1024);
      EXPECT_EQ(first_wrong(meant, in, rows_run{where, c}(in)), "")
          << text(c) << ", " << counts.size() << " ranges";
    }
  }
}

TEST(row_formats, any_number_of_sms_gives_the_same) {
  const world where = cpu();
  rows_case c{rows_from::silu, token_format::nvfp4, scale_layout::row_major, 1056, {}, {}, 40};
  const std::vector<float> in = uneven_values(c, 9);
  const rows_result all = rows_run{where, c}(in);
  for (const int sms : {1, 2, 1000}) {
    c.num_sms = sms;
    EXPECT_TRUE((rows_run{where, c}(in) == all)) << sms;
  }
}

TEST(row_formats, ranges_of_nonsense_corrupt_nothing) {
  const world where = cpu();
  const std::vector<std::int32_t> counts(1024, 0x7fffffff), firsts(1024, 3);
  const rows_case c{rows_from::bf16, token_format::mxfp8, scale_layout::row_major, 32, counts, firsts, 9};
  const rows_result found = rows_run{where, c}(uneven_values(c, 8));
  EXPECT_EQ(std::vector<std::uint8_t>(found.values.begin(), found.values.begin() + 96),
            std::vector<std::uint8_t>(96, untouched));
}

TEST(row_formats, extreme_gates_are_the_identity_or_nothing) {
  rows_case c{rows_from::silu, token_format::bf16, scale_layout::row_major, 8, {}, {}, 1};
  const std::vector<float> in{-3e38f, -1e4f, -88.0f, 0.0f, 88.0f, 1e4f, 3e38f, -0.0f,
                              1,      1,     2,      5,    2,     2,    0.5f,  1};
  const rows_result found = rows_run{cpu(), c}(in);
  const float expected[] = {0, 0, 0, 0, 176, 2e4f, 1.5e38f, 0};
  for (std::size_t i = 0; i < 8; ++i) {
    const double e = static_cast<double>(expected[i]);
    EXPECT_NEAR(read_value(c.format, found.values, i), e, e / 256 + 1e-35) << i;
  }
}

struct wrong_use {
  void (*spoil)(row_selection& rows, formatted_rows& out, int& columns);
  const char* says;
};

TEST(row_formats, what_is_wrong_is_refused_by_name_before_anything_runs) {
  const world where = cpu();
  device_buffer<bfloat16> in{where, 4096};
  device_buffer<std::uint8_t> values{where, 8192}, scales{where, 8192};
  device_buffer<std::int32_t> counts{where, 4};
  static std::int32_t* some;
  some = counts.data();
  for (const auto& [spoil, what] : {
           wrong_use{[](row_selection&, formatted_rows&out, int&) { out.format = token_format{9}; },
                     "out.format is 9"},
           wrong_use{[](row_selection&, formatted_rows&out, int&) { out.format = token_format::bf16; },
                     "out.format is bf16"},
           wrong_use{[](row_selection&, formatted_rows&out, int&) { out.layout = scale_layout{7}; },
                     "out.layout is 7"},
           wrong_use{[](row_selection&, formatted_rows&out, int&columns) {
                       columns = 128;
                       out.format = token_format::blockwise_fp8, out.layout = scale_layout::tiled_128x4;
                     },
                     "takes scales of one byte; those of fp8 have 4"},
           wrong_use{[](row_selection&, formatted_rows&, int&columns) { columns = 40; },
                     "columns is 40; with mxfp8 it must be a positive multiple of 32"},
           wrong_use{[](row_selection&, formatted_rows&, int&columns) { columns = 0; }, "columns is 0"},
           wrong_use{[](row_selection&rows, formatted_rows&, int&) { rows.max_rows = -1; },
                     "rows.max_rows is -1"},
           wrong_use{[](row_selection&rows, formatted_rows&, int&columns) {
                       rows.max_rows = 0x7fffffff, columns = 1 << 20;
                     },
                     "274877906944 values in all at most"},
           wrong_use{[](row_selection&rows, formatted_rows&, int&) { rows.num_sms = -1; },
                     "rows.num_sms is -1"},
           wrong_use{[](row_selection&rows, formatted_rows&, int&) { rows.num_ranges = 2; },
                     "rows.counts is null"},
           wrong_use{[](row_selection&rows, formatted_rows&, int&) { rows.counts = some; },
                     "rows.num_ranges is 0"},
           wrong_use{
               [](row_selection&rows, formatted_rows&, int&) { rows.counts = some, rows.num_ranges = 2; },
               "rows.firsts is null"},
           wrong_use{[](row_selection&rows, formatted_rows&, int&) {
                       rows.counts = rows.firsts = some, rows.num_ranges = 1025;
                     },
                     "rows.num_ranges is 1025"},
           wrong_use{[](row_selection&, formatted_rows&out, int&) { out.values = nullptr; },
                     "out.values is null"},
           wrong_use{[](row_selection&, formatted_rows&out, int&) { out.scales = nullptr; },
                     "out.scales is null"},
           wrong_use{[](row_selection&, formatted_rows&out, int&) {
                       out.values = static_cast<char*>(out.values) + 8;
                     },
                     "a multiple of 16 bytes"},
       }) {
    row_selection rows{4};
    formatted_rows out{token_format::mxfp8, values.data(), scales.data()};
    int columns = 64;
    spoil(rows, out, columns);
    try {
      quantise(where, in.data(), columns, rows, out);
      ADD_FAILURE() << "not refused: " << what;
    } catch (const invalid_argument& e) {
      EXPECT_TRUE(says(e.what(), "quantise: ", what)) << e.what();
    }
  }
  const formatted_rows out{token_format::mxfp8, values.data(), scales.data()};
  EXPECT_THROW(fused_silu(where, nullptr, 64, {4}, out), invalid_argument);
  EXPECT_NO_THROW(fused_silu(where, nullptr, 64, {0}, {token_format::mxfp8}));
}

}  // namespace
}  // namespace baton::test
