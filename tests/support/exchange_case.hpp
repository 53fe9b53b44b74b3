#pragma once
// Inputs of an exchange round and what must come out, computed in plain loops that share no code with the kernels.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "baton/expert_parallel.hpp"
#include "tests/support/block_oracle.hpp"
#include "tests/support/weighted_rows.hpp"

namespace baton::test {

/// How ids are drawn.
enum class routing {
  distinct,    // top_k different experts, uniform
  repeated,    // uniform with repetition
  one_expert,  // all choices of all tokens are expert 0: fills its slots, then overflows
  sparse,      // a third of the ids is -1
};

struct exchange_case {
  int ranks = 2;
  ep_config config;
  std::vector<int> tokens;  // of each rank
  routing ids = routing::distinct;
  bool wide_ids = false;        // given as int64
  bool given_tokens = false;    // in the format
  bool shared_experts = false;  // every rank gives combine a shared_output
  bool bf16_output = false;     // of combine, and so of expected_output
  /// Of each physical expert, the one whose weights it has; empty: its own.
  std::vector<std::int32_t> weights_of = {};
};

/// Which weights expert `e` has.
inline int weights_of(const exchange_case& c, int e) {
  return c.weights_of.empty() ? e : c.weights_of[static_cast<std::size_t>(e)];
}

/// A token as the receiver holds it: its payload and scales as bytes, and the floats that they stand for.
struct encoded_token {
  std::vector<std::uint8_t> payload;
  std::vector<std::uint8_t> scales;
  std::vector<float> values;
};

struct rank_inputs {
  int num_tokens = 0;
  std::vector<bfloat16> tokens;
  std::vector<std::int32_t> topk_idx;
  std::vector<float> topk_weights;
  std::vector<std::int64_t> wide_ids;   // if any, given in place of topk_idx, which says what they count as
  std::vector<encoded_token> given;     // if any, in place of tokens
  std::vector<bfloat16> shared_output;  // if any, given to combine
};

inline std::vector<std::int32_t> draw_ids(const exchange_case& c, std::mt19937_64& random) {
  const int k = c.config.top_k, experts = c.config.num_experts;
  std::vector<std::int32_t> ids(static_cast<std::size_t>(k));
  std::vector<std::int32_t> deck(static_cast<std::size_t>(experts));
  for (int e = 0; e < experts; ++e) deck[static_cast<std::size_t>(e)] = e;
  for (int i = 0; i < k; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (c.ids == routing::distinct) {
      std::swap(deck[at], deck[at + random() % (deck.size() - at)]);
      ids[at] = deck[at];
    } else {
      ids[at] = c.ids == routing::one_expert ? 0 : static_cast<std::int32_t>(random() % deck.size());
      if (c.ids == routing::sparse && random() % 3 == 0) ids[at] = -1;
    }
  }
  return ids;
}

inline void append(std::vector<std::uint8_t>& to, const std::vector<std::uint8_t>& bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

/// Finite values and scales, of which casting a token would make no such pair.
inline encoded_token draw_encoded(const ep_config& c, std::mt19937_64& random) {
  const format_facts facts = facts_of(c.format);
  encoded_token out;
  for (int i = 0; i < facts.row_bytes(c.hidden); ++i) {
    auto bits = static_cast<std::uint8_t>(random());
    if (facts.value_bits == 8 && (bits & 0x7f) == 0x7f) bits ^= 1;  // NaN
    out.payload.push_back(bits);
  }
  for (int i = 0; i < facts.row_scales(c.hidden); ++i) {
    const float fp32 = std::ldexp(1.0f + static_cast<float>(random() % 1000) * 1e-3f, -8);
    if (facts.scale_bytes == 1)
      out.scales.push_back(
          static_cast<std::uint8_t>(random() % 20 + (c.format == token_format::nvfp4 ? 40 : 110)));
    else
      append(out.scales, scale_bytes(c.format, static_cast<double>(fp32)));
  }
  const auto block = static_cast<std::size_t>(facts.block);
  for (std::size_t h = 0; h < static_cast<std::size_t>(c.hidden); h += block) {
    const auto scale = static_cast<float>(read_scale(c.format, out.scales, h / block));
    for (std::size_t i = h; i < h + block; ++i)
      out.values.push_back(static_cast<float>(read_value(facts.value_bits, out.payload, i)) * scale);
  }
  return out;
}

/// Normal values, each any of 4,096: to draw one takes a logarithm and a root, and rounds draw millions.
class normal_values {
 public:
  explicit normal_values(std::mt19937_64& random) : random_{random} {}
  bfloat16 next() {
    if (left_ == 0) bits_ = random_(), left_ = 5;  // of 12 bits each
    --left_;
    const bfloat16 value = values()[bits_ & 4095];
    bits_ >>= 12;
    return value;
  }

 private:
  static const std::vector<bfloat16>& values() {
    static const std::vector<bfloat16> drawn = [] {
      std::mt19937_64 random{1};
      std::normal_distribution<float> normal;
      std::vector<bfloat16> made;
      for (int i = 0; i < 4096; ++i) made.emplace_back(normal(random));
      return made;
    }();
    return drawn;
  }

  std::mt19937_64& random_;
  std::uint64_t bits_ = 0;
  int left_ = 0;
};

inline std::vector<rank_inputs> draw_inputs(const exchange_case& c, std::uint64_t seed) {
  std::mt19937_64 random{seed};
  std::vector<rank_inputs> all(static_cast<std::size_t>(c.ranks));
  for (std::size_t r = 0; r < all.size(); ++r) {
    rank_inputs& in = all[r];
    in.num_tokens = c.tokens[r];
    normal_values normal{random};
    for (int t = 0; t < in.num_tokens; ++t) {
      for (int h = 0; h < c.config.hidden; ++h) in.tokens.push_back(normal.next());
      for (const std::int32_t id : draw_ids(c, random)) {
        in.topk_idx.push_back(id);
        in.topk_weights.push_back(static_cast<float>(1 + random() % 1000) * 1e-3f);
      }
    }
    for (int t = 0; c.given_tokens && t < in.num_tokens; ++t)
      in.given.push_back(draw_encoded(c.config, random));
    if (c.wide_ids) in.wide_ids.assign(in.topk_idx.begin(), in.topk_idx.end());
    for (std::size_t i = 0; c.shared_experts && i < in.tokens.size(); ++i)
      in.shared_output.push_back(i % 31 == 0 ? bfloat16{-0.0f} : normal.next());
  }
  return all;
}

/// One message, by source.
struct message {
  int rank, token, topk_slot;
};

/// Whether an earlier choice of the token of the i-th id is the same expert.
inline bool lists_before(const exchange_case& c, const rank_inputs& in, int i) {
  for (int j = i - i % c.config.top_k; j < i; ++j)
    if (in.topk_idx[static_cast<std::size_t>(j)] == in.topk_idx[static_cast<std::size_t>(i)]) return true;
  return false;
}

/// Messages of each expert, in the order in which they must be received.
inline std::vector<std::vector<message>> expected_messages(const exchange_case& c,
                                                           const std::vector<rank_inputs>& inputs) {
  std::vector<std::vector<message>> of_expert(static_cast<std::size_t>(c.config.num_experts));
  for (int r = 0; r < c.ranks; ++r) {
    const rank_inputs& in = inputs[static_cast<std::size_t>(r)];
    std::vector<int> sent(of_expert.size(), 0);
    for (int i = 0; i < in.num_tokens * c.config.top_k; ++i) {
      const std::int32_t id = in.topk_idx[static_cast<std::size_t>(i)];
      if (id < 0 || id >= c.config.num_experts) continue;
      const auto e = static_cast<std::size_t>(id);
      if (c.config.layout == ep_layout::per_rank && lists_before(c, in, i)) continue;  // one row for both
      if (sent[e]++ < c.config.num_max_tokens_per_rank)
        of_expert[e].push_back({r, i / c.config.top_k, i % c.config.top_k});
    }
  }
  return of_expert;
}

/// Most of the suite's tokens are of this format: quicker than by the tables, which block_format_test holds it to.
inline void encode_fp8(const std::vector<float>& x, encoded_token& out) {
  float largest = 1e-4f;
  for (const float v : x) largest = std::max(largest, std::fabs(v));
  const float scale = largest / 448.0f, inverse = 1.0f / scale;
  append(out.scales, scale_bytes(token_format::blockwise_fp8, static_cast<double>(scale)));
  for (const float v : x) {
    const float8_e4m3 q{v * inverse};
    out.payload.push_back(q.bits);
    out.values.push_back(static_cast<float>(q) * scale);
  }
}

inline void encode_by_the_rules(token_format format, const std::vector<float>& x, encoded_token& out) {
  const expected_block b = expected(format, x, 1.0f);
  append(out.payload, value_bytes(format, b.values));
  append(out.scales, scale_bytes(format, b.scale));
  for (const double v : b.values) out.values.push_back(static_cast<float>(v) * static_cast<float>(b.scale));
}

inline encoded_token encode(const ep_config& c, const bfloat16* token) {
  encoded_token out;
  const auto hidden = static_cast<std::size_t>(c.hidden),
             block = static_cast<std::size_t>(facts_of(c.format).block);
  if (c.format == token_format::bf16) {
    out.payload.resize(hidden * 2);
    out.values.resize(hidden);
    for (std::size_t h = 0; h < hidden; ++h) {
      out.payload[2 * h] = static_cast<std::uint8_t>(token[h].bits & 0xff);
      out.payload[2 * h + 1] = static_cast<std::uint8_t>(token[h].bits >> 8);
      out.values[h] = static_cast<float>(token[h]);
    }
    return out;
  }
  for (std::size_t begin = 0; begin < hidden; begin += block) {
    std::vector<float> x(block);
    for (std::size_t i = 0; i < block; ++i) x[i] = static_cast<float>(token[begin + i]);
    if (c.format == token_format::blockwise_fp8)
      encode_fp8(x, out);
    else
      encode_by_the_rules(c.format, x, out);
  }
  return out;
}

/// Each rank's tokens, cast unless they are given as they travel.
inline std::vector<std::vector<encoded_token>> encode_all(const exchange_case& c,
                                                          const std::vector<rank_inputs>& inputs) {
  std::vector<std::vector<encoded_token>> of_rank(inputs.size());
  for (std::size_t r = 0; r < inputs.size(); ++r) {
    of_rank[r] = inputs[r].given;
    if (inputs[r].given.empty())
      for (int t = 0; t < inputs[r].num_tokens; ++t)
        of_rank[r].push_back(encode(c.config, inputs[r].tokens.data() + t * c.config.hidden));
  }
  return of_rank;
}

/// A round's inputs, which outlive this, and what becomes of them: worked out once for all that is compared with it, as most of
/// the time of the exchange's tests goes into it.
struct expected_round {
  const exchange_case& c;
  const std::vector<rank_inputs>& inputs;
  std::vector<std::vector<message>> messages = expected_messages(c, inputs);
  std::vector<std::vector<encoded_token>> tokens = encode_all(c, inputs);  // of each rank
  // Of each rank that somebody asked for: a place each, as ranks' threads ask at the same time.
  mutable std::vector<std::vector<float>> outputs =
      std::vector<std::vector<float>>(static_cast<std::size_t>(c.ranks));
};

/// What the tests' experts compute: a different factor for each expert, so that no two can be confused.
inline float expert_factor(int expert) {
  return 1.0f + 0.125f * static_cast<float>(expert % 29);
}

inline int rank_of_expert(const exchange_case& c, int expert) {
  for (int r = 0; r < c.ranks; ++r) {
    const expert_range here = experts_of_rank(c.config.num_experts, c.ranks, r);
    if (expert >= here.first && expert < here.first + here.count) return r;
  }
  return -1;
}

/// Adds what an expert makes of a token, weighted, in one rounding.
inline void add_weighted_reply(float weight, int expert, const std::vector<float>& token, float* sum) {
  add_weighted_values(weight, expert_factor(expert), token.data(), sum, token.size());
}

/// A rank's part of a token as another one gets it: each value rounded once.
inline void round_as_it_travels(const ep_config& c, std::vector<float>& part) {
  if (c.combine_format == token_format::bf16) {
    for (float& v : part) v = static_cast<float>(bfloat16{v});
    return;
  }
  encoded_token out;
  const auto block = facts_of(c.combine_format).block;
  for (auto at = part.begin(); at != part.end(); at += block) encode_fp8({at, at + block}, out);
  part = out.values;
}

/// Parts of a rank's tokens, as they are before they travel and when they have.
class parts_of_ranks {
 public:
  parts_of_ranks(const expected_round& round, int rank)
      : round_{round}, in_{round.inputs[static_cast<std::size_t>(rank)]}, rank_{rank} {
    rank_of_.resize(in_.topk_idx.size(), -1);
    for (std::size_t i = 0; i < rank_of_.size(); ++i)
      if (in_.topk_idx[i] >= 0 && in_.topk_idx[i] < round.c.config.num_experts)
        rank_of_[i] = rank_of_expert(round.c, in_.topk_idx[i]);
  }

  /// What rank r's experts make of token t; empty: it has none.
  std::vector<float> of(std::size_t t, int r) const {
    const exchange_case& c = round_.c;
    const auto k = static_cast<std::size_t>(c.config.top_k);
    std::vector<float> part;
    for (std::size_t i = t * k; i < (t + 1) * k; ++i) {
      if (rank_of_[i] != r) continue;
      part.resize(static_cast<std::size_t>(c.config.hidden), 0.0f);
      add_weighted_reply(in_.topk_weights[i], weights_of(c, in_.topk_idx[i]),
                         round_.tokens[static_cast<std::size_t>(rank_)][t].values, part.data());
    }
    return part;
  }
  /// Of ranks [first, end), in order, as rank `to` has it: each other's part rounded.
  std::vector<float> sum(std::size_t t, int first, int end, int to) const {
    std::vector<float> all;
    for (int r = first; r < end; ++r) {
      std::vector<float> part = of(t, r);
      if (r != to) round_as_it_travels(round_.c.config, part);
      all.resize(std::max(all.size(), part.size()), 0.0f);
      for (std::size_t h = 0; h < part.size(); ++h) all[h] += part[h];
    }
    return all;
  }
  /// What comes from rank r, or, with two levels, by it from its group.
  std::vector<float> coming(std::size_t t, int r) const {
    const ep_config& c = round_.c.config;
    const int size = c.p2p_group_size;
    if (c.levels == ep_levels::one || size == 0 || r / size == rank_ / size) return sum(t, r, r + 1, rank_);
    if (r % size != rank_ % size) return {};
    std::vector<float> all = sum(t, r / size * size, r / size * size + size, r);
    round_as_it_travels(c, all);
    return all;
  }

 private:
  const expected_round& round_;
  const rank_inputs& in_;
  int rank_;
  std::vector<int> rank_of_;
};

/// expected_output with layout per_rank: sums of each rank's experts, rounded if they travel, ranks in order.
inline std::vector<float> expected_sums_of_ranks(const expected_round& round, int rank) {
  const auto hidden = static_cast<std::size_t>(round.c.config.hidden);
  const auto tokens = static_cast<std::size_t>(round.inputs[static_cast<std::size_t>(rank)].num_tokens);
  const parts_of_ranks parts{round, rank};
  std::vector<float> out(tokens * hidden, 0.0f);
  for (std::size_t t = 0; t < tokens; ++t)
    for (int r = 0; r < round.c.ranks; ++r) {
      const std::vector<float> part = parts.coming(t, r);
      for (std::size_t h = 0; h < part.size(); ++h) out[t * hidden + h] += part[h];
    }
  return out;
}

/// expected_output with layout per_expert: a sum over choices.
inline std::vector<float> expected_sums_of_choices(const expected_round& round, int rank) {
  const exchange_case& c = round.c;
  const auto hidden = static_cast<std::size_t>(c.config.hidden), k = static_cast<std::size_t>(c.config.top_k);
  const rank_inputs& in = round.inputs[static_cast<std::size_t>(rank)];
  std::vector<int> expert_of(in.topk_idx.size(), -1);
  for (std::size_t e = 0; e < round.messages.size(); ++e) {
    for (const message& m : round.messages[e]) {
      if (m.rank == rank)
        expert_of[static_cast<std::size_t>(m.token) * k + static_cast<std::size_t>(m.topk_slot)] =
            static_cast<int>(e);
    }
  }
  std::vector<float> out(static_cast<std::size_t>(in.num_tokens) * hidden, 0.0f);
  for (std::size_t i = 0; i < expert_of.size(); ++i) {
    if (expert_of[i] < 0) continue;
    const encoded_token& token = round.tokens[static_cast<std::size_t>(rank)][i / k];
    add_weighted_reply(in.topk_weights[i], weights_of(c, expert_of[i]), token.values,
                       out.data() + i / k * hidden);
  }
  return out;
}

/// What is left when all choices are added up: last comes what shared experts made, and then sums are rounded.
inline void finish_sums(const exchange_case& c, const rank_inputs& in, std::vector<float>& sums) {
  for (std::size_t i = 0; i < in.shared_output.size(); ++i)
    sums[i] += static_cast<float>(in.shared_output[i]);
  if (c.bf16_output)
    for (float& v : sums) v = static_cast<float>(bfloat16{v});
}

/// out[t, :] of one rank, with the documented order of operations: bit for bit what combine_wait must give.
inline std::vector<float> make_expected_output(const expected_round& round, int rank) {
  const exchange_case& c = round.c;
  const rank_inputs& in = round.inputs[static_cast<std::size_t>(rank)];
  std::vector<float> out = c.config.layout == ep_layout::per_rank ? expected_sums_of_ranks(round, rank)
                                                                  : expected_sums_of_choices(round, rank);
  finish_sums(c, in, out);
  return out;
}

/// The same, made once for a round.
inline std::vector<float> expected_output(const expected_round& round, int rank) {
  std::vector<float>& made = round.outputs.at(static_cast<std::size_t>(rank));
  if (made.empty()) made = make_expected_output(round, rank);
  return made;
}

}  // namespace baton::test
