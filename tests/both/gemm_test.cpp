// The product as users call it on the CPU, and which tiles it takes.
#include "baton/gemm.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/activation.hpp"
#include "baton/error.hpp"
#include "kernels/gemm/config.hpp"
#include "kernels/gemm/tile_choice.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/epilogue_case.hpp"
#include "tests/support/gemm_case.hpp"

namespace baton {
namespace {

using gemm_kernels::config;
using gemm_kernels::why_not;
using test::gemm_case;
using test::gemm_size;

template <class Out, class In>
std::vector<Out> called(const test::typed_gemm_case<In>& g, gemm_b_layout layout = gemm_b_layout::n_by_k) {
  const auto worlds = world::local(1, device_kind::cpu);
  const std::vector<In> b = layout == gemm_b_layout::k_by_n ? test::b_of_rows_of_k(g) : g.b;
  std::vector<Out> out(g.c.size(), Out{-1.0f});
  gemm(worlds[0], gemm_problem<Out, In>{.a = g.a.data(),
                                        .b = b.data(),
                                        .c = out.data(),
                                        .m = g.size.m,
                                        .n = g.size.n,
                                        .k = g.size.k,
                                        .b_layout = layout});
  worlds[0].synchronize();
  return out;
}

TEST(gemm, integers_are_exact_on_the_cpu) {
  for (const auto& size : {gemm_size{1, 8, 8}, {64, 64, 64}, {65, 56, 136}, {7, 200, 72}, {3, 8, 1000}}) {
    const gemm_case g = test::integer_gemm(size);
    EXPECT_EQ(test::wrong_element(g, called<float>(g).data()), "");
    EXPECT_EQ(test::wrong_element(g, called<bfloat16>(g).data()), "");
    const auto halves = test::integer_gemm<float16>(size);
    EXPECT_EQ(test::wrong_element(halves, called<float>(halves).data()), "");
    EXPECT_EQ(test::wrong_element(halves, called<float16>(halves).data()), "");
  }
}

TEST(gemm, real_values_stay_within_one_rounding_a_term_on_the_cpu) {
  const gemm_case g = test::real_gemm({70, 88, 336});
  EXPECT_EQ(test::wrong_element(g, called<float>(g).data(), 336), "");
  EXPECT_EQ(test::wrong_element(g, called<bfloat16>(g).data(), 336), "");
  const auto halves = test::real_gemm<float16>({70, 88, 336});
  EXPECT_EQ(test::wrong_element(halves, called<float>(halves).data(), 336), "");
  EXPECT_EQ(test::wrong_element(halves, called<float16>(halves).data(), 336), "");
}

TEST(gemm, the_layout_of_b_changes_no_bit_on_the_cpu) {
  for (const auto& size : {gemm_size{1, 8, 8}, {33, 56, 136}, {7, 200, 72}, {3, 8, 1000}, {5, 8, 0}}) {
    const gemm_case g = test::real_gemm(size);
    EXPECT_EQ(called<float>(g, gemm_b_layout::k_by_n), called<float>(g)) << test::text(size);
    const auto halves = test::real_gemm<float16>(size);
    EXPECT_EQ(called<float>(halves, gemm_b_layout::k_by_n), called<float>(halves)) << test::text(size);
  }
}

TEST(gemm, sums_beyond_what_fp16_holds_become_infinite) {
  const auto g = test::make_gemm<float16>({1, 8, 16}, [] { return 64.0f; });
  EXPECT_EQ(called<float>(g)[0], 65536.0f);
  EXPECT_EQ(static_cast<float>(called<float16>(g)[0]), std::numeric_limits<float>::infinity());
}

TEST(gemm, alpha_and_beta_scale_the_product_and_what_was_there) {
  const gemm_case g = test::integer_gemm({20, 24, 40});
  const auto worlds = world::local(1, device_kind::cpu);
  std::vector<float> out(g.c.size(), 6.0f);
  gemm(worlds[0], gemm_problem<float>{g.a.data(), g.b.data(), out.data(), 20, 24, 40, -2.0f, 0.5f});
  worlds[0].synchronize();
  EXPECT_EQ(test::wrong_element(test::scaled(g, -2, 0.5, 6), out.data()), "");
}

template <class Out, class In>
void expect_epilogues_on_the_cpu(const test::typed_gemm_case<In>& g) {
  const auto worlds = world::local(1, device_kind::cpu);
  const std::vector<Out> own = test::biases<Out>(g.size.n);
  const std::vector<float> fp32 = test::biases<float>(g.size.n);
  for (const test::epilogue_case& e : test::epilogue_cases()) {
    std::vector<Out> out = test::what_was_there<Out>(e, g.c.size());
    gemm(worlds[0], test::problem_of<gemm_problem<Out, In>>(e, g.size, g.a.data(), g.b.data(), out.data(),
                                                            own.data(), fp32.data()));
    worlds[0].synchronize();
    EXPECT_EQ(test::wrong_epilogue(e, g, out.data()), "");
  }
}

TEST(gemm, a_bias_of_each_column_and_an_activation_come_behind_the_sums) {
  const gemm_case g = test::integer_gemm({20, 40, 24});
  expect_epilogues_on_the_cpu<float>(g);
  expect_epilogues_on_the_cpu<bfloat16>(g);
  const auto halves = test::integer_gemm<float16>({20, 40, 24});
  expect_epilogues_on_the_cpu<float>(halves);
  expect_epilogues_on_the_cpu<float16>(halves);
}

TEST(gemm, an_activation_of_what_is_no_number_or_infinite_is_what_its_formula_says) {
  using enum activation;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const activation a : {relu, silu, gelu}) {
    EXPECT_TRUE(std::isnan(activated(a, std::numeric_limits<float>::quiet_NaN()))) << name(a);
    EXPECT_EQ(activated(a, infinity), infinity) << name(a);
    EXPECT_EQ(activated(a, 3e38f), 3e38f) << name(a);
    EXPECT_EQ(activated(a, -3e38f), 0.0f) << name(a);
  }
}

TEST(gemm, activations_of_all_magnitudes_are_as_near_as_the_header_says) {
  for (const activation a : {activation::silu, activation::gelu}) {
    for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += 65537) {
      const float v = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
      if (!std::isfinite(v)) continue;
      const double x = v, u = std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x);
      const double right = x / (1 + std::exp(a == activation::silu ? -x : -2 * u));
      const double promised = 0x1p-21 * std::abs(right) * (a == activation::silu ? 1 : 1 + std::abs(u));
      ASSERT_NEAR(activated(a, v), right, std::max(promised, 0x1p-121)) << name(a) << " of " << v;
    }
  }
}

TEST(gemm, what_was_there_is_not_read_where_beta_is_zero) {
  const gemm_case g = test::integer_gemm({9, 16, 8});
  const auto worlds = world::local(1, device_kind::cpu);
  std::vector<float> out(g.c.size(), std::numeric_limits<float>::quiet_NaN());
  gemm(worlds[0], gemm_problem<float>{g.a.data(), g.b.data(), out.data(), 9, 16, 8, 3.0f, 0.0f});
  worlds[0].synchronize();
  EXPECT_EQ(test::wrong_element(test::scaled(g, 3, 0, 0), out.data()), "");
}

TEST(gemm, nothing_to_sum_gives_zeros_and_nothing_to_write_writes_nothing) {
  EXPECT_EQ(called<float>(test::integer_gemm({5, 8, 0})), std::vector<float>(40, 0.0f));
  EXPECT_TRUE(called<float>(test::integer_gemm({0, 8, 8})).empty());
  EXPECT_TRUE(called<float>(test::integer_gemm({5, 0, 8})).empty());
}

TEST(gemm, alpha_does_not_matter_where_there_is_nothing_to_sum) {
  const auto worlds = world::local(1, device_kind::cpu);
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const float alpha : {0.0f, -3.0f, infinity, std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> out(40, 6.0f);
    gemm(worlds[0], gemm_problem<float>{.c = out.data(), .m = 5, .n = 8, .alpha = alpha, .beta = 0.5f});
    worlds[0].synchronize();
    EXPECT_EQ(out, std::vector<float>(40, 3.0f)) << alpha;
  }
}

TEST(gemm, bad_arguments_are_named) {
  const auto worlds = world::local(1, device_kind::cpu);
  alignas(16) bfloat16 operand[80]{};
  alignas(16) float out[80]{};
  const auto message = [&](const gemm_problem<float>& p, const gemm_config& c = {}) {
    return test::message_of<invalid_argument>([&] { gemm(worlds[0], p, c); });
  };
  using test::says;
  EXPECT_TRUE(says(message({operand, operand, out, -1, 8, 8}), "m: -1 is outside"));
  EXPECT_TRUE(says(message({operand, operand, out, 8, 12, 8}), "n: 12 is not a multiple of 8", "to 16"));
  EXPECT_TRUE(says(message({operand, operand, out, 8, 8, 20}), "k: 20 is not a multiple of 8",
                   "pad the rows of a and b with zeros to 24"));
  EXPECT_TRUE(says(message({operand, operand, out, 8, 8, (1 << 28) + 8}), "k: 268435464 is outside"));
  EXPECT_TRUE(says(message({operand, operand, out, 1 << 28, 8192, 8}), "c: 268435456 x 8192"));
  EXPECT_TRUE(says(message({nullptr, operand, out, 8, 8, 8}), "a: null", "[m, k] = [8, 8]"));
  EXPECT_TRUE(says(message({operand, nullptr, out, 8, 8, 8}), "b: null", "[n, k]"));
  EXPECT_TRUE(says(message({operand, operand, nullptr, 8, 8, 8}), "c: null", "[m, n]"));
  EXPECT_TRUE(says(message({operand + 1, operand, out, 8, 8, 8}), "a: ", "not a multiple of 16 bytes"));
  EXPECT_TRUE(says(message({operand, operand, out + 1, 8, 8, 8}), "c: ", "not a multiple of 16 bytes"));
  EXPECT_TRUE(
      says(message({operand, operand, out, 8, 8, 8, 1, 0, out + 1}), "bias: ", "not a multiple of 16"));
  EXPECT_TRUE(says(message({operand, operand, out, 8, 8, 8, 1, 0, nullptr, out + 1}),
                   "fp32_bias: ", "not a multiple"));
  EXPECT_TRUE(says(message({operand, operand, out, 8, 8, 8, 1, 0, out, out}), "both are given"));
  EXPECT_TRUE(says(message({operand, operand, out, 8, 8, 8, 1, 0, nullptr, nullptr, activation{4}}),
                   "act: 4 is no activation"));
  EXPECT_TRUE(
      says(message({.a = operand, .c = out, .m = 8, .n = 16, .k = 8, .b_layout = gemm_b_layout::k_by_n}),
           "b: null", "[k, n] = [8, 16]"));
  EXPECT_TRUE(says(message({.m = 8, .n = 8, .k = 8, .b_layout = gemm_b_layout{2}}), "b_layout: 2 is no"));
  EXPECT_TRUE(says(message({operand, operand, out, 8, 8, 8}, {.num_sms = -2}), "num_sms: -2"));
  EXPECT_TRUE(says(message({operand, operand, out, 8, 8, 8}, {.tiles = gemm_tiles{5}}), "tiles: 5 is no"));
}

TEST(gemm_config, automatic_tiles_are_those_that_were_quickest_on_an_h200) {
  constexpr int sms = 132;
  const auto tiles_of = [](int m, int n, int k, int on) {
    return name(
        gemm_kernels::chosen_of(gemm_kernels::tile_rates, {.num_sms = on, .splits = 1}, m, n, k).tiles);
  };
  const auto of = [&](int size) { return tiles_of(size, size, size, sms); };
  EXPECT_STREQ(of(8192), "paired");
  EXPECT_STREQ(of(4096), "paired");
  EXPECT_STREQ(of(2048), "wide");
  EXPECT_STREQ(of(1024), "narrow");
  EXPECT_STREQ(tiles_of(0, 8, 0, 1), "wide");
}

TEST(gemm_config, what_cannot_run_is_refused) {
  EXPECT_EQ(why_not<config{}>(), nullptr);
  EXPECT_TRUE(test::says(why_not<config{.columns = 96}>(), "columns: not 64, 128 or 256"));
  EXPECT_TRUE(test::says(why_not<config{.stages = 1}>(), "a ring needs two slots"));
  EXPECT_TRUE(test::says(why_not<config{.stages = 5}>(), "more shared memory"));
  EXPECT_TRUE(test::says(why_not<config{.places = 3}>(), "the last place of a tile is the next one's first"));
  EXPECT_TRUE(test::says(why_not<config{.columns = 64, .cluster = 16}>(), "a multiple of eight rows"));
  EXPECT_TRUE(test::says(why_not<config{.columns = 64, .epilogue = true}>(), "a multiple of 64 columns"));
}

}  // namespace
}  // namespace baton
