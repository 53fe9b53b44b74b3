// Layout per_rank on shapes that are drawn: sizes, formats, alignments, routings, uneven numbers of tokens, blocks and threads,
// and how received tokens lie.
// BATON_EXCHANGE_SHAPES sets how many; BATON_EXCHANGE_SEED the first.
#include <fmt/format.h>

#include <cstdlib>
#include <iostream>
#include <random>

#include "tests/support/exchange_cases.hpp"

namespace baton::test {
namespace {

struct drawn_shape {
  exchange_case what;
  calls how;
};

class shape_drawing {
 public:
  explicit shape_drawing(std::uint64_t seed) : random_{seed} {}

  drawn_shape draw(ep_transfer transfer) {
    exchange_case c;
    c.ranks = between(1, 8);
    ep_config& config = c.config;
    config.layout = ep_layout::per_rank;
    config.transfer = transfer;
    config.format = one_of(2) ? token_format::bf16 : token_format::blockwise_fp8;
    config.num_experts = std::max(c.ranks, any_size(1, 1024));
    config.top_k = any_size(1, 32);
    const int unit = facts_of(config.format).multiple;
    config.hidden = unit * any_size(1, 16384 / unit);
    constexpr int most_values = 1 << 20;  // that there is room for on all ranks together
    const int most = std::clamp(most_values / (c.ranks * c.ranks * config.top_k * config.hidden), 1, 300);
    for (int r = 0; r < c.ranks; ++r) c.tokens.push_back(one_of(4) ? 0 : between(1, most));
    config.num_max_tokens_per_rank =
        std::max(1, *std::max_element(c.tokens.begin(), c.tokens.end())) + between(0, 2);
    c.ids = static_cast<routing>(between(0, 3));
    if (c.ids == routing::distinct && config.top_k > config.num_experts) c.ids = routing::repeated;
    c.wide_ids = one_of(4);
    config.num_sms = between(0, 5);
    config.num_threads = one_of(2) ? 0 : 32 * between(3, 24);
    if (one_of(3)) config.row_alignment = 1 << between(config.format == token_format::bf16 ? 0 : 2, 7);
    const calls how = one_of(2) ? calls::apart : calls::fused;
    if (one_of(3)) config.rows = ep_rows::by_token;
    return {c, how};
  }

 private:
  int between(int low, int high) { return std::uniform_int_distribution{low, high}(random_); }
  bool one_of(int n) { return between(1, n) == 1; }
  /// Small sizes as often as large ones, and both ends.
  int any_size(int low, int high) {
    if (one_of(8)) return one_of(2) ? low : high;
    const double log = std::uniform_real_distribution{std::log(low), std::log(high + 1.0)}(random_);
    return std::clamp(static_cast<int>(std::exp(log)), low, high);
  }

  std::mt19937_64 random_;
};

std::string described(const drawn_shape& s) {
  const ep_config& c = s.what.config;
  return fmt::format(
      "{} ranks, {} experts, top {}, hidden {}, {}, {}, up to {} tokens, routing {}, {} blocks of {} "
      "threads, rows from "
      "multiples of {}, {}{}{}",
      s.what.ranks, c.num_experts, c.top_k, c.hidden, name(c.format), name(c.transfer),
      c.num_max_tokens_per_rank, static_cast<int>(s.what.ids), c.num_sms, c.num_threads, c.row_alignment,
      s.how == calls::fused ? "fused" : "apart", s.what.wide_ids ? ", ids of 64 bits" : "",
      c.rows == ep_rows::by_token ? ", by token" : "");
}

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* set = std::getenv(name);
  return set == nullptr ? otherwise : std::strtoull(set, nullptr, 10);
}

TEST(exchange_shapes, of_any_size_give_the_rows_and_sums_of_the_reference) {
  const std::uint64_t first = from_environment("BATON_EXCHANGE_SEED", 1),
                      shapes = from_environment("BATON_EXCHANGE_SHAPES", 30);
  std::cout << "BATON_EXCHANGE_SEED=" << first << " BATON_EXCHANGE_SHAPES=" << shapes << "\n";
  std::uint64_t refused = 0;
  for (std::uint64_t seed = first; seed < first + shapes; ++seed) {
    const ep_transfer transfer = every_transfer[seed % 3];
    const drawn_shape shape = shape_drawing{seed}.draw(transfer);
    const std::string context = fmt::format("BATON_EXCHANGE_SEED={}: {}", seed, described(shape));
    if (const std::string reason = why_not(shape.what.config, shape.what.ranks); !reason.empty()) {
      EXPECT_NE(transfer, ep_transfer::chunks) << context << ": " << reason;
      ++refused;
      continue;
    }
    const auto worlds = world::local(shape.what.ranks, device_kind::cpu);
    auto ranks = make_ranks(worlds, shape.what.config);
    for (std::uint64_t round = 1; round <= 2; ++round)
      EXPECT_EQ(run_round(shape.what, ranks, seed + round, shape.how), "") << context;
    for (auto& r : ranks) EXPECT_NO_THROW(r.ep().check()) << context;
  }
  EXPECT_LE(4 * refused, shapes) << "most shapes are served";
}

}  // namespace
}  // namespace baton::test
