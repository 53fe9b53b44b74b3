// The model's attention by the library: as near to the host's as bf16 is, and the same bits however sequences come.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "cli/library_attention.hpp"
#include "cli/model/host_attention.hpp"
#include "tests/cpu/says.hpp"
#include "tests/cpu/tiny_moe.hpp"

namespace baton::test {
namespace {

using model::attended_sequence;

constexpr int layers = 2, heads = 4, kv_heads = 2, dim = 64, row = kv_heads * dim, q_row = heads * dim;

model::model_config config() {
  model::model_config c = tiny_moe().config();
  c.num_hidden_layers = layers, c.num_attention_heads = heads, c.num_key_value_heads = kv_heads;
  c.head_dim = dim;
  return c;
}

std::vector<float> normal_values(std::size_t n, std::uint32_t seed) {
  std::mt19937 random{seed};
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& v : values) v = normal(random);
  return values;
}

/// A sequence whose q, k and v are known for all of its positions.
class known_sequence {
 public:
  known_sequence(int positions, std::uint32_t seed)
      : cache{layers, row},
        q_{normal_values(static_cast<std::size_t>(positions) * q_row, seed)},
        k_{normal_values(static_cast<std::size_t>(positions) * row, seed + 1)},
        v_{normal_values(static_cast<std::size_t>(positions) * row, seed + 2)},
        out(q_.size()) {}

  /// The next tokens, in a layer.
  attended_sequence next(int layer, int tokens) {
    const auto first = static_cast<std::size_t>(cache.positions());
    for (std::size_t t = first; t < first + static_cast<std::size_t>(tokens); ++t)
      cache.put(layer, static_cast<int>(t), {k_.data() + t * row, row}, {v_.data() + t * row, row});
    return {&cache, tokens, q_.data() + first * q_row, out.data() + first * q_row};
  }

  model::kv_cache cache;

 private:
  std::vector<float> q_, k_, v_;

 public:
  std::vector<float> out;
};

const std::vector<world>& one_rank() {
  static const std::vector<world> ranks = world::local(1, device_kind::cpu);
  return ranks;
}
cli::library_attention attention_of(const std::vector<int>& positions) {
  return {config(), one_rank(), std::vector<std::vector<int>>{positions}};
}

TEST(library_attention, is_as_near_to_the_hosts_as_bf16_is) {
  known_sequence a{150, 1}, b{150, 1};
  cli::library_attention library = attention_of({150});
  model::host_attention host{config()};
  for (const int layer : {1, 0}) {
    library.run(0, layer, std::vector{a.next(layer, 150)});
    host.run(0, layer, std::vector{b.next(layer, 150)});
    double errors = 0, values = 0;
    for (std::size_t i = 0; i < a.out.size(); ++i) {
      errors += std::pow(a.out[i] - b.out[i], 2);
      values += std::pow(b.out[i], 2);
    }
    // q, k, v and out are rounded to 8 bits each: an error of up to 2^-9 of each, and of a logit's share.
    EXPECT_LE(std::sqrt(errors / values), 0x1p-7);
    EXPECT_GT(errors, 0);
  }
}

TEST(library_attention, gives_a_sequence_the_same_bits_alone_and_with_others_at_once_and_by_and_by) {
  known_sequence alone{200, 1}, among{200, 1}, other{70, 9}, other_alone{70, 9};
  cli::library_attention at_once = attention_of({200, 70}), by_and_by = attention_of({200, 70});
  at_once.run(0, 1, std::vector{alone.next(1, 200)});
  at_once.run(0, 1, std::vector{other_alone.next(1, 70)});
  for (const auto& [tokens, of_other] : {std::pair{1, 3}, {62, 60}, {1, 1}, {1, 1}, {64, 5}, {71, 0}}) {
    std::vector<attended_sequence> step;
    if (of_other > 0) step.push_back(other.next(1, of_other));
    step.push_back(among.next(1, tokens));
    by_and_by.run(0, 1, step);
    among.cache.commit(tokens), other.cache.commit(of_other);
  }
  EXPECT_EQ(among.out, alone.out);
  EXPECT_EQ(other.out, other_alone.out);
}

TEST(library_attention, takes_a_step_again_that_was_not_committed) {
  known_sequence once{80, 1}, twice{80, 1};
  cli::library_attention first = attention_of({80}), second = attention_of({80});
  first.run(0, 0, std::vector{once.next(0, 80)});
  second.run(0, 0, std::vector{twice.next(0, 40)});  // and failed in a later layer
  second.run(0, 0, std::vector{twice.next(0, 80)});
  EXPECT_EQ(twice.out, once.out);
}

TEST(library_attention, refuses_more_positions_than_were_said_and_says_how_many_those_are) {
  known_sequence a{65, 1};
  cli::library_attention library = attention_of({64});
  EXPECT_TRUE(says(message_of<invalid_argument>([&] { library.run(0, 0, std::vector{a.next(0, 65)}); }),
                   "1 pages of 64 positions"));
}

TEST(library_attention, says_which_models_gpus_have_no_kernel_for) {
  model::model_config c = config();
  EXPECT_EQ(cli::library_attention::why_not(c, device_kind::cuda), "");
  c.head_dim = 96;
  EXPECT_TRUE(says(cli::library_attention::why_not(c, device_kind::cuda), "head_dim is 96"));
  EXPECT_EQ(cli::library_attention::why_not(c, device_kind::cpu), "");
}

}  // namespace
}  // namespace baton::test
