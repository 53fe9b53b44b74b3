// What the program draws and prints: safe text, bars, summaries.
#include <gtest/gtest.h>

#include <numeric>

#include "cli/commands/exchange_summary.hpp"
#include "cli/view/bars.hpp"
#include "cli/view/text.hpp"

namespace baton::cli {
namespace {

TEST(text, valid_utf8_passes_and_everything_else_is_escaped) {
  EXPECT_EQ(printable("def f():\n\tpass"), "def f():\n\tpass");
  EXPECT_EQ(printable("naïve → 😀"), "naïve → 😀");
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf") << "overlong";
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "surrogate";
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "past U+10FFFF";
  EXPECT_EQ(printable("\xe2\x86z"), "\\xe2\\x86z") << "cut short by another character";
}

TEST(text, is_broken_at_spaces_and_where_there_are_none_at_the_last_column) {
  EXPECT_EQ(wrapped("aa bb cc", 5), (std::vector<std::string>{"aa bb", "cc"}));
  EXPECT_EQ(wrapped("aaaaaaa", 3), (std::vector<std::string>{"aaa", "aaa", "a"}));
  EXPECT_EQ(wrapped("µµ µµ", 3), (std::vector<std::string>{"µµ", "µµ"})) << "columns, not bytes";
  EXPECT_EQ(wrapped("", 3), std::vector<std::string>{""});
  EXPECT_EQ(hanging("--a  some words here", 5, 10), "--a  some\n     words\n     here");
  EXPECT_EQ(hanging("--a  short", 5, 10), "--a  short");
}

TEST(text, control_characters_cannot_reach_the_terminal) {
  EXPECT_EQ(printable("\x1b[2J\r\x07\x7f"), "\\x1b[2J\\x0d\\x07\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b") << "C1 control";
  EXPECT_EQ(printable(std::string{"a\0b", 3}), "a\\x00b");
}

TEST(text, a_stream_gives_the_same_as_the_whole_however_it_is_cut) {
  const std::string bytes = "a→\xff😀\xe2\x86";
  utf8_stream stream;
  std::string out;
  for (const char c : bytes) out += stream.push({&c, 1});
  EXPECT_EQ(out, "a→\\xff😀") << "the unfinished character is held back";
  EXPECT_EQ(out + stream.finish(), printable(bytes));
}

TEST(text, one_line_is_no_wider_than_asked) {
  EXPECT_EQ(one_line("a\nb\tc", 20), "a\\nb\\tc");
  EXPECT_EQ(one_line("abcdef", 6), "abcdef");
  EXPECT_EQ(one_line("abcdefg", 6), "abcde…");
  EXPECT_EQ(columns(one_line("äöüäöüäöü", 4)), 4u);
}

TEST(bars, are_as_wide_as_asked_and_never_hide_a_small_value) {
  EXPECT_EQ(bar(1, 2, 4), "██  ");
  EXPECT_EQ(bar(2, 2, 4), "████");
  EXPECT_EQ(bar(3, 2, 4), "████") << "past the end";
  EXPECT_EQ(bar(5, 16, 4), "█▎  ");
  EXPECT_EQ(bar(1e-9, 1, 4), "▏   ");
  EXPECT_EQ(bar(0, 1, 4), "    ");
  EXPECT_EQ(bar(1, 0, 4), "    ");
}

TEST(bars, shares_fill_the_width_exactly) {
  const std::vector<share> shares{{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1e-6}, {"e", 0}};
  const std::vector<int> widths = share_columns(shares, 50);
  EXPECT_EQ(std::accumulate(widths.begin(), widths.end(), 0), 50);
  EXPECT_EQ(widths[3], 1);
  EXPECT_EQ(widths[4], 0);
  EXPECT_EQ(share_columns(std::vector<share>{{"a", 0}}, 9), std::vector{0});
}

/// Statistics of one layer in which token t of rank r goes to experts t, t + 1, ...
exchange_statistics counted(int num_experts, int num_ranks) {
  ep_config config;
  config.num_experts = num_experts;
  config.top_k = 2;
  config.hidden = 128;
  config.num_max_tokens_per_rank = 256;
  exchange_statistics statistics{config, num_ranks, 1};
  std::vector<model::routed_tokens> ranks(static_cast<std::size_t>(num_ranks));
  for (auto& rank : ranks) {
    for (int id = 0; id < num_experts / 2; ++id) rank.topk_idx.push_back(id);
  }
  statistics.count(0, ranks);
  return statistics;
}

TEST(summary, fits_100_columns_and_one_screen_for_any_number_of_experts_and_ranks) {
  const style plain = style::plain();
  for (const int experts : {8, 60, 64, 128, 256, 1000, 1024}) {
    for (const int ranks : {1, 3, 8}) {
      const exchange_statistics statistics = counted(experts, ranks);
      std::vector<std::string> lines = rank_load(statistics, plain);
      for (const auto& more : {expert_load(statistics, plain), bytes_moved(statistics, plain)}) {
        lines.insert(lines.end(), more.begin(), more.end());
      }
      EXPECT_LE(lines.size(), 30u) << experts << " experts on " << ranks << " ranks";
      for (const std::string& line : lines) EXPECT_LE(columns(line), 100u) << line;
    }
  }
}

TEST(summary, an_exchange_that_moved_nothing_is_drawn_too) {
  ep_config config;
  config.num_experts = 4;
  config.hidden = 128;
  const exchange_statistics nothing{config, 2, 1};
  EXPECT_EQ(rank_load(nothing, style::plain()).size(), 2u);
  EXPECT_NE(expert_load(nothing, style::plain()).back().find("·· ··"), std::string::npos);
  EXPECT_EQ(time_shares(std::vector<share>{{"a", 0}}, style::plain()).size(), 2u);
}

}  // namespace
}  // namespace baton::cli
