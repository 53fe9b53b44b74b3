#include "cli/bench/ep_inputs.hpp"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "base/format_error.hpp"
#include "cli/bench/on_cores.hpp"

namespace baton::cli {
namespace {

std::vector<int> owners(const ep_config& c, int num_ranks) {
  std::vector<int> home;
  for (int r = 0; r < num_ranks; ++r)
    home.insert(home.end(), static_cast<std::size_t>(experts_of_rank(c.num_experts, num_ranks, r).count), r);
  return home;
}

struct token_choices {
  std::span<const std::int32_t> ids;
  std::span<const float> weights;
};

float sum_of_choices(const token_choices& choices, float x) {
  float sum = 0;
  for (const float weight : choices.weights) sum = std::fma(weight, x, sum);
  return sum;
}

/// What ranks' experts make of a value of a token, and how ranks have it of each other: rounded to bf16, or as it is.
struct sums_of_ranks {
  const token_choices& choices;
  const std::vector<int>& home;
  bool rounds;

  float travelled(float sum) const { return rounds ? static_cast<float>(bfloat16{sum}) : sum; }
  /// By rank r, as rank `to` has it.
  float of(int r, int to, float x) const {
    float partial = 0;
    for (std::size_t k = 0; k < choices.ids.size(); ++k)
      if (home[static_cast<std::size_t>(choices.ids[k])] == r)
        partial = std::fma(choices.weights[k], x, partial);
    return r == to ? partial : travelled(partial);
  }
};

/// Ranks ascending. With two levels another group's ranks are added up by who has this rank's place there, and rounded once more.
float sum_of_ranks(const sums_of_ranks& sums, const ep_config& c, rank_of_ranks of, float x) {
  const bool is_forwarded = c.levels == ep_levels::two && c.p2p_group_size > 0;
  const int group = is_forwarded ? c.p2p_group_size : of.num_ranks;
  float all = 0;
  for (int r = 0; r < of.num_ranks; ++r) {
    if (r / group == of.rank / group) {
      all += sums.of(r, of.rank, x);
    } else if (r % group == of.rank % group) {
      float of_group = 0;
      for (int i = r / group * group; i < r / group * group + group; ++i) of_group += sums.of(i, r, x);
      all += sums.travelled(of_group);
    }
  }
  return all;
}

/// By how much the way back in block FP8 may move a sum: weights times x each, of a block whose scale is at most that of the
/// tokens', larger by what storing moved its largest value, times the weights; or the least there is, on each rank.
double moved_back(const token_choices& choices, const std::vector<int>& home, rank_of_ranks of, double size,
                  double scale) {
  double weights = 0;
  for (std::size_t k = 0; k < choices.ids.size(); ++k)
    if (home[static_cast<std::size_t>(choices.ids[k])] != of.rank)
      weights += static_cast<double>(choices.weights[k]);
  const double least = of.num_ranks * 0x1p-10 * 1e-4 / 448;
  return 1.01 * weights * format_error(token_format::blockwise_fp8, size, 1.26 * scale) + 0x1p-20 * size +
         least;
}

/// In [-1, 1).
void draw_values(random_bits& random, std::vector<bfloat16>& values) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    bits = i % 4 == 0 ? random.next() : bits >> 16;
    values[i] = bfloat16{random_bits::unit(bits) * 2.0f - 1.0f};
  }
}

}  // namespace

std::vector<bfloat16> random_rows(const ep_config& c, int num_tokens, std::uint64_t seed) {
  std::vector<bfloat16> rows(static_cast<std::size_t>(num_tokens) * static_cast<std::size_t>(c.hidden));
  random_bits random{seed};
  draw_values(random, rows);
  return rows;
}

rank_inputs random_inputs(const ep_config& c, int num_tokens, std::uint64_t seed, const token_router& route) {
  const auto tokens = static_cast<std::size_t>(num_tokens), top_k = static_cast<std::size_t>(c.top_k);
  rank_inputs in;
  in.tokens.resize(tokens * static_cast<std::size_t>(c.hidden));
  in.topk_idx.resize(tokens * top_k);
  in.topk_weights.resize(tokens * top_k);
  random_bits random{seed};
  draw_values(random, in.tokens);
  for (std::size_t t = 0; t < tokens; ++t) {
    route(random, std::span{in.topk_idx}.subspan(t * top_k, top_k),
          std::span{in.topk_weights}.subspan(t * top_k, top_k));
  }
  return in;
}

rank_inputs random_inputs(const ep_config& c, int num_tokens, std::uint64_t seed) {
  return random_inputs(c, num_tokens, seed, router_of({.num_experts = c.num_experts, .top_k = c.top_k}, 0));
}

namespace {

comparison compare_tokens(const ep_config& c, rank_of_ranks of, const rank_inputs& in,
                          std::span<const float> out, std::size_t first_token, std::size_t end_token) {
  const auto hidden = static_cast<std::size_t>(c.hidden), top_k = static_cast<std::size_t>(c.top_k);
  constexpr token_format fp8 = token_format::blockwise_fp8;
  const bool is_cast = c.format != token_format::bf16, per_rank = c.layout == ep_layout::per_rank;
  const bool is_cast_back = c.combine_format == fp8, exact = !is_cast && !is_cast_back;
  const auto block = static_cast<std::size_t>(facts_of(c.format).block);
  const std::vector<int> home = owners(c, of.num_ranks);
  comparison result;
  for (std::size_t t = first_token; t < end_token; ++t) {
    const token_choices choices{std::span{in.topk_idx}.subspan(t * top_k, top_k),
                                std::span{in.topk_weights}.subspan(t * top_k, top_k)};
    double scale = 0, scale_back = 0;
    for (std::size_t h = 0; h < hidden; ++h) {
      const auto x = static_cast<float>(in.tokens[t * hidden + h]);
      const bfloat16* from = in.tokens.data() + t * hidden + h;
      if (is_cast && h % block == 0) scale = scale_of(c.format, from);
      if (is_cast_back && h % static_cast<std::size_t>(facts_of(fp8).block) == 0)
        scale_back = scale_of(fp8, from);
      float expected =
          per_rank ? sum_of_ranks({choices, home, !is_cast_back}, c, of, x) : sum_of_choices(choices, x);
      const bool is_shared = !in.shared_output.empty();
      if (is_shared) expected += static_cast<float>(in.shared_output[t * hidden + h]);
      const double error = std::abs(static_cast<double>(out[t * hidden + h]) - static_cast<double>(expected));
      const double size = std::abs(static_cast<double>(x));
      double allowed = 0;
      if (is_cast) {
        const double moved = format_error(c.format, static_cast<double>(x), scale);
        allowed = 1.01 * moved + (size + moved) * 0x1p-8;
      }
      if (is_cast && per_rank) allowed += 2 * 0x1p-8 * (size + allowed);
      if (is_cast_back) allowed += moved_back(choices, home, of, size + allowed, scale_back);
      if (!exact && is_shared) allowed += 0x1p-23 * std::abs(static_cast<double>(expected));
      ++result.values;
      if (!(error <= allowed)) ++result.wrong;
      result.see(error);
    }
  }
  return result;
}

}  // namespace

comparison compare_identity(const ep_config& c, rank_of_ranks of, const rank_inputs& in,
                            std::span<const float> out) {
  comparison all;
  std::mutex one_at_a_time;
  on_cores(in.topk_idx.size() / static_cast<std::size_t>(c.top_k), static_cast<std::size_t>(of.num_ranks),
           [&](std::size_t begin, std::size_t end) {
             const comparison part = compare_tokens(c, of, in, out, begin, end);
             const std::scoped_lock lock{one_at_a_time};
             all.add(part);
           });
  return all;
}

}  // namespace baton::cli
