#include "cli/bench/ep_inputs.hpp"

#include <algorithm>
#include <cmath>

#include "base/math.hpp"

namespace baton::cli {
namespace {

constexpr int block_values = 128;  // share an fp8 scale

/// splitmix64: small, fast, and the same everywhere.
class random_bits {
 public:
  explicit random_bits(std::uint64_t seed) : state_{seed} {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  std::int32_t below(int bound) {
    return static_cast<std::int32_t>((next() >> 32) * static_cast<std::uint64_t>(bound) >> 32);
  }
  /// In [0, 1), from 16 of the bits.
  static float unit(std::uint64_t bits) { return static_cast<float>(bits & 0xffffu) * 0x1p-16f; }

 private:
  std::uint64_t state_;
};

void choose_experts(random_bits& random, int experts, std::span<std::int32_t> ids) {
  for (std::size_t k = 0; k < ids.size();) {
    ids[k] = random.below(experts);
    const auto earlier = ids.first(k);
    if (std::find(earlier.begin(), earlier.end(), ids[k]) == earlier.end()) ++k;
  }
}

void choose_weights(random_bits& random, std::span<float> weights) {
  float sum = 0;
  for (float& w : weights) sum += w = random_bits::unit(random.next()) + 0x1p-6f;
  for (float& w : weights) w /= sum;
}

float scale_of(std::span<const bfloat16> block) {
  float largest = 0;
  for (const bfloat16 v : block) largest = std::max(largest, std::abs(static_cast<float>(v)));
  return largest / 448.0f;
}

}  // namespace

rank_inputs random_inputs(const ep_config& c, int num_tokens, std::uint64_t seed) {
  const auto tokens = static_cast<std::size_t>(num_tokens), top_k = static_cast<std::size_t>(c.top_k);
  rank_inputs in;
  in.tokens.resize(tokens * static_cast<std::size_t>(c.hidden));
  in.topk_idx.resize(tokens * top_k);
  in.topk_weights.resize(tokens * top_k);
  random_bits random{seed};
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < in.tokens.size(); ++i) {
    bits = i % 4 == 0 ? random.next() : bits >> 16;
    in.tokens[i] = bfloat16{random_bits::unit(bits) * 2.0f - 1.0f};
  }
  for (std::size_t t = 0; t < tokens; ++t) {
    choose_experts(random, c.num_experts, std::span{in.topk_idx}.subspan(t * top_k, top_k));
    choose_weights(random, std::span{in.topk_weights}.subspan(t * top_k, top_k));
  }
  return in;
}

comparison compare_identity(const ep_config& c, const rank_inputs& in, std::span<const float> out) {
  const auto hidden = static_cast<std::size_t>(c.hidden), top_k = static_cast<std::size_t>(c.top_k);
  const bool exact = c.format == token_format::bf16;
  comparison result;
  for (std::size_t t = 0; t < in.topk_idx.size() / top_k; ++t) {
    float scale = 0;
    for (std::size_t h = 0; h < hidden; ++h) {
      const auto x = static_cast<float>(in.tokens[t * hidden + h]);
      if (!exact && h % block_values == 0)
        scale = scale_of(std::span{in.tokens}.subspan(t * hidden + h, block_values));
      float expected = 0;
      for (std::size_t k = 0; k < top_k; ++k)
        expected = std::fma(in.topk_weights[t * top_k + k], x, expected);
      const double error = std::abs(static_cast<double>(out[t * hidden + h]) - static_cast<double>(expected));
      const double size = std::abs(static_cast<double>(x));
      const double allowed =
          exact ? 0.0 : 1.01 * std::max(size * 0x1p-4, static_cast<double>(scale) * 0x1p-10) + size * 0x1p-8;
      ++result.values;
      if (!(error <= allowed)) ++result.wrong;
      if (!(error <= result.worst_error)) result.worst_error = error;
    }
  }
  return result;
}

traffic traffic_of(const ep_config& c, std::span<const rank_inputs> ranks) {
  traffic t;
  t.ranks = static_cast<int>(ranks.size());
  const bool fp8 = c.format == token_format::blockwise_fp8;
  const int scales = fp8 ? c.hidden / block_values * 4 : 0;
  const int payload = fp8 ? c.hidden : 2 * c.hidden;
  t.dispatch_row_bytes = static_cast<std::uint64_t>(payload + scales);
  t.message_bytes = static_cast<std::uint64_t>(payload + align_up(scales, 16)) + sizeof(source_info);
  t.combine_row_bytes = static_cast<std::uint64_t>(2 * c.hidden);
  std::vector<std::size_t> home;
  for (int r = 0; r < t.ranks; ++r) {
    const expert_range owned = experts_of_rank(c.num_experts, t.ranks, r);
    home.insert(home.end(), static_cast<std::size_t>(owned.count), static_cast<std::size_t>(r));
  }
  t.rows.assign(ranks.size() * ranks.size(), 0);
  for (std::size_t source = 0; source < ranks.size(); ++source)
    for (const std::int32_t id : ranks[source].topk_idx)
      ++t.rows[source * ranks.size() + home[static_cast<std::size_t>(id)]];
  return t;
}

std::uint64_t traffic::most_rows_out() const {
  std::uint64_t most = 0;
  for (int source = 0; source < ranks; ++source) {
    std::uint64_t out = 0;
    for (int to = 0; to < ranks; ++to) out += to == source ? 0 : rows_between(source, to);
    most = std::max(most, out);
  }
  return most;
}

std::uint64_t traffic::most_rows_received() const {
  std::uint64_t most = 0;
  for (int to = 0; to < ranks; ++to) {
    std::uint64_t in = 0;
    for (int source = 0; source < ranks; ++source) in += rows_between(source, to);
    most = std::max(most, in);
  }
  return most;
}

std::uint64_t traffic::most_replies_out() const {
  std::uint64_t most = 0;
  for (int expert_rank = 0; expert_rank < ranks; ++expert_rank) {
    std::uint64_t out = 0;
    for (int to = 0; to < ranks; ++to) out += to == expert_rank ? 0 : rows_between(to, expert_rank);
    most = std::max(most, out);
  }
  return most;
}

}  // namespace baton::cli
