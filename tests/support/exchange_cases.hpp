#pragma once
// The conformance suite of the exchange: what every device and layout must do. Instantiated by cpu and gpu tests.
#include <gtest/gtest.h>

#include <ostream>

#include "tests/support/exchange_rank.hpp"

namespace baton::test {

struct named_case {
  const char* name;
  exchange_case what;
};
inline void PrintTo(const named_case& c, std::ostream* out) {
  *out << c.name;
}

/// Of layout per_expert, unless per_rank() or travelling() says otherwise.
inline ep_config sizes(int experts, int top_k, int hidden, int max_tokens) {
  ep_config c;
  c.layout = ep_layout::per_expert;
  c.num_experts = experts;
  c.top_k = top_k;
  c.hidden = hidden;
  c.num_max_tokens_per_rank = max_tokens;
  return c;
}

/// Few tokens: each rank has another number, some have none, and experts do not divide by ranks.
inline exchange_case case_of_many_ranks(int ranks, int hidden = 128) {
  exchange_case c{ranks, sizes(ranks + ranks / 2 + 1, 6, hidden, 7), {}, routing::sparse};
  for (int r = 0; r < ranks; ++r) c.tokens.push_back((r * 5 + 3) % 8);
  c.config.num_sms = 3;
  return c;
}

/// Cases for `ranks` ranks; `scale` multiplies token counts.
inline std::vector<named_case> conformance_cases(int ranks, int scale = 1) {
  const auto n = static_cast<std::size_t>(ranks);
  const auto all = [&](int tokens) { return std::vector<int>(n, tokens * scale); };
  std::vector<int> ragged(n), one_empty(n, 7 * scale);
  for (std::size_t r = 0; r < n; ++r) ragged[r] = (static_cast<int>(r) * 5 + 3) % 17 * scale;
  one_empty[n - 1] = 0;
  const int t = 17 * scale;
  return {
      {"usual", {ranks, sizes(16, 4, 256, t), all(16), routing::distinct}},
      {"one_token", {ranks, sizes(16, 4, 256, t), all(1), routing::distinct}},
      {"one_value_vector_a_token", {ranks, sizes(9, 3, 8, t), all(9), routing::distinct}},
      {"odd_sizes", {ranks, sizes(13, 5, 264, t), ragged, routing::distinct}},
      {"experts_do_not_divide_by_ranks", {ranks, sizes(11, 3, 128, t), all(12), routing::distinct}},
      {"as_many_experts_as_ranks", {ranks, sizes(ranks, 1, 64, t), all(12), routing::distinct}},
      {"an_empty_rank", {ranks, sizes(16, 4, 128, t), one_empty, routing::distinct}},
      {"all_ranks_empty", {ranks, sizes(16, 4, 128, t), all(0), routing::distinct}},
      {"masked_ids", {ranks, sizes(16, 4, 128, t), ragged, routing::sparse}},
      {"repeated_ids", {ranks, sizes(6 > ranks ? 6 : ranks, 6, 128, t), all(10), routing::repeated}},
      {"capacity_filled_by_one_expert", {ranks, sizes(16, 1, 128, t), all(17), routing::one_expert}},
      {"capacity_overflowed_by_repeats", {ranks, sizes(16, 3, 128, t), all(17), routing::one_expert}},
      {"top_32", {ranks, sizes(64, 32, 128, t), all(5), routing::distinct}},
      {"many_experts", {ranks, sizes(1024, 8, 64, t), all(6), routing::distinct}},
      {"wide_rows_of_most_ranks", {ranks, sizes(16, 8, 8200, 3 * scale), all(3), routing::distinct}},
  };
}

/// The same in another format and arrival policy; formats with scales need hidden sizes they can block, and rows of some steps,
/// which wide ones have.
inline exchange_case with(exchange_case c, token_format format, arrival_policy arrival) {
  c.config.format = format;
  c.config.arrival = arrival;
  const int multiple = facts_of(format).multiple;
  constexpr int wide = 8192;
  if (format != token_format::bf16)
    c.config.hidden =
        (c.config.hidden + multiple - 1) / multiple * multiple * (c.config.hidden < wide ? 5 : 1);
  return c;
}

/// The same with layout per_rank, which has no choice of arrival words.
inline exchange_case per_rank(exchange_case c, token_format format = token_format::bf16,
                              ep_transfer transfer = ep_transfer::automatic,
                              ep_rows rows = ep_rows::by_expert) {
  c = with(std::move(c), format, arrival_policy::epoch);
  c.config.layout = ep_layout::per_rank;
  c.config.transfer = transfer;
  c.config.rows = rows;
  return c;
}

/// Whether tokens of the format travel so; why_not says it too.
constexpr bool carries(ep_transfer transfer, token_format format) {
  return transfer != ep_transfer::flags || facts_of(format).scale_bytes != 1;
}
inline constexpr ep_transfer every_transfer[] = {ep_transfer::lines, ep_transfer::chunks, ep_transfer::flags};
constexpr const char* name(ep_transfer how) {
  constexpr const char* names[] = {"automatic", "lines", "chunks", "flags"};
  return names[static_cast<std::size_t>(how)];
}

/// The ways in which tokens travel, and with layout per_rank how they lie when they are there.
enum class travel {
  by_expert,
  in_lines,
  in_chunks,
  in_lines_by_token,
  in_chunks_by_token,
  by_flags,
  by_flags_by_token
};
inline constexpr travel every_travel[] = {
    travel::by_expert,          travel::in_lines, travel::in_chunks,        travel::in_lines_by_token,
    travel::in_chunks_by_token, travel::by_flags, travel::by_flags_by_token};
constexpr const char* name(travel how) {
  constexpr const char* names[] = {"by_expert",          "in_lines", "in_chunks",        "in_lines_by_token",
                                   "in_chunks_by_token", "by_flags", "by_flags_by_token"};
  return names[static_cast<std::size_t>(how)];
}
inline exchange_case travelling(travel how, exchange_case c, token_format format = token_format::bf16) {
  if (how == travel::by_expert) return with(std::move(c), format, arrival_policy::epoch);
  const bool in_lines = how == travel::in_lines || how == travel::in_lines_by_token;
  const bool by_flags = how == travel::by_flags || how == travel::by_flags_by_token;
  const bool by_token = how == travel::in_lines_by_token || how == travel::in_chunks_by_token ||
                        how == travel::by_flags_by_token;
  return per_rank(std::move(c), format,
                  in_lines   ? ep_transfer::lines
                  : by_flags ? ep_transfer::flags
                             : ep_transfer::chunks,
                  by_token ? ep_rows::by_token : ep_rows::by_expert);
}

/// One of the ways to have the same rounds: nothing of what comes of them depends on it.
struct exchange_way {
  std::string name;
  ep_config config;
  calls how;
};

/// Three rounds of a case in each of some ways, which share what must come of a round.
inline void expect_rounds_in_every_way(const std::vector<world>& worlds, const exchange_case& c,
                                       const std::vector<exchange_way>& ways) {
  std::vector<std::vector<exchange_rank>> ranks;
  for (const exchange_way& way : ways) ranks.push_back(make_ranks(worlds, way.config));
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const auto inputs = draw_inputs(c, seed);
    const expected_round round{c, inputs};
    for (std::size_t i = 0; i < ways.size(); ++i)
      EXPECT_EQ(run_round(round, ranks[i], ways[i].how), "") << ways[i].name << ", seed " << seed;
  }
  for (auto& all : ranks)
    for (auto& r : all) EXPECT_NO_THROW(r.ep().check());
}

}  // namespace baton::test
