// The product of groups: as users call it on the CPU, as the kernel runs on the CPU machine, and bugs planted into that.
#include "baton/gemm.hpp"

#include <bit>
#include <limits>

#include "base/activation.hpp"
#include "baton/error.hpp"
#include "kernels/gemm/tile_choice.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/epilogue_case.hpp"
#include "tests/support/group_gemm_runs.hpp"

namespace baton {
namespace {

using gemm_kernels::config;
using gemm_kernels::operand_type;
using gemm_kernels::why_not;
using test::gemm_case;
using test::gemm_run;
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

/// `g` with its result multiplied by alpha and beta times what was there added.
template <class In>
test::typed_gemm_case<In> scaled(test::typed_gemm_case<In> g, double alpha, double beta, double before) {
  for (double& v : g.c) v = alpha * v + beta * before;
  return g;
}

TEST(gemm, alpha_and_beta_scale_the_product_and_what_was_there) {
  const gemm_case g = test::integer_gemm({20, 24, 40});
  const auto worlds = world::local(1, device_kind::cpu);
  std::vector<float> out(g.c.size(), 6.0f);
  gemm(worlds[0], gemm_problem<float>{g.a.data(), g.b.data(), out.data(), 20, 24, 40, -2.0f, 0.5f});
  worlds[0].synchronize();
  EXPECT_EQ(test::wrong_element(scaled(g, -2, 0.5, 6), out.data()), "");
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
  EXPECT_EQ(test::wrong_element(scaled(g, 3, 0, 0), out.data()), "");
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

// The kernel, with small tiles to be quick.
constexpr config pair{.columns = 64, .stages = 2, .places = 1};
constexpr config pair_of_floats{.columns = 64, .stages = 3, .float_out = true};
constexpr config alone{.columns = 128, .stages = 2, .cluster = 1};
constexpr config pair_of_halves{.columns = 64, .stages = 2, .places = 1, .in = operand_type::fp16};
constexpr config halves_to_floats{
    .columns = 64, .stages = 2, .cluster = 1, .float_out = true, .in = operand_type::fp16};
constexpr config scaled_halves{.columns = 256, .stages = 2, .epilogue = true, .in = operand_type::fp16};
constexpr config scaled_pair{.columns = 128, .stages = 2, .places = 1, .epilogue = true};
constexpr config scaled_floats{.columns = 128, .stages = 2, .float_out = true, .epilogue = true};

template <config C>
using out_of = gemm_kernels::out_value<C>;

template <config C, class In>
std::string wrong_on_the_machine(const test::typed_gemm_case<In>& g, const sim::options& how, int steps = 0) {
  std::vector<out_of<C>> out(g.c.size(), out_of<C>{-1.0f});
  test::run_group_gemm<C>(g, {.how = how}, out);
  return test::wrong_element(g, out.data(), steps);
}

TEST(gemm_kernel, integers_are_exact_in_every_schedule_at_sizes_around_the_tiles_borders) {
  for (const auto& size : {gemm_size{1, 8, 8}, {256, 64, 64}, {300, 136, 200}, {257, 72, 128}}) {
    const gemm_case g = test::integer_gemm(size);
    for (const sim::options& how : test::product_schedules) {
      EXPECT_EQ(wrong_on_the_machine<pair>(g, how), "");
      EXPECT_EQ(wrong_on_the_machine<pair_of_floats>(g, how), "");
      EXPECT_EQ(wrong_on_the_machine<alone>(g, how), "");
      const auto halves = test::integer_gemm<float16>(size);
      EXPECT_EQ(wrong_on_the_machine<pair_of_halves>(halves, how), "");
      EXPECT_EQ(wrong_on_the_machine<halves_to_floats>(halves, how), "");
    }
  }
}

/// Of b as [k, n].
template <config C, class In>
std::string wrong_with_rows_of_k(const test::typed_gemm_case<In>& g, const sim::options& how, int steps = 0) {
  const std::vector<In> b = test::b_of_rows_of_k(g);
  std::vector<out_of<C>> out(g.c.size(), out_of<C>{-1.0f});
  test::run_group_gemm<C>(gemm_kernels::operands<out_of<C>, In>{.a = g.a.data(),
                                                                .b = b.data(),
                                                                .c = out.data(),
                                                                .m = g.size.m,
                                                                .n = g.size.n,
                                                                .k = g.size.k,
                                                                .b_is_rows_of_k = true},
                          {.how = how});
  return test::wrong_element(g, out.data(), steps);
}

TEST(gemm_kernel, b_may_be_rows_of_k_in_every_schedule_at_sizes_around_the_tiles_borders) {
  for (const auto& size : {gemm_size{1, 8, 8}, {256, 64, 64}, {300, 136, 200}, {257, 72, 128}}) {
    const gemm_case g = test::integer_gemm(size);
    const auto halves = test::integer_gemm<float16>(size);
    for (const sim::options& how : test::product_schedules) {
      EXPECT_EQ(wrong_with_rows_of_k<scaled_pair>(g, how), "");
      EXPECT_EQ(wrong_with_rows_of_k<scaled_floats>(g, how), "");
      EXPECT_EQ(wrong_with_rows_of_k<scaled_halves>(halves, how), "");
    }
  }
}

template <gemm_tiles T>
void expect_exact_as_on_gpus(const gemm_case& g) {
  EXPECT_EQ((wrong_on_the_machine<gemm_kernels::config_of(T, false, false)>(g, {})), "") << name(T);
  EXPECT_EQ((wrong_on_the_machine<gemm_kernels::config_of(T, true, false)>(g, {})), "") << name(T);
  EXPECT_EQ((wrong_with_rows_of_k<gemm_kernels::config_of(T, false, true)>(g, {})), "") << name(T);
  EXPECT_EQ(why_not<gemm_kernels::config_of(T, true, true)>(), nullptr) << name(T);
}

template <gemm_tiles T>
void expect_exact_as_on_gpus(const test::typed_gemm_case<float16>& g) {
  using gemm_kernels::dense_config;
  EXPECT_EQ((wrong_on_the_machine<dense_config<float16, float16, T, false>>(g, {})), "") << name(T);
  EXPECT_EQ((wrong_on_the_machine<dense_config<float, float16, T, false>>(g, {})), "") << name(T);
}

TEST(gemm_kernel, the_configurations_of_gpus_are_exact_too) {
  const auto with_all_tiles = [](const auto& g) {
    expect_exact_as_on_gpus<gemm_tiles::paired>(g);
    expect_exact_as_on_gpus<gemm_tiles::wide>(g);
    expect_exact_as_on_gpus<gemm_tiles::medium>(g);
    expect_exact_as_on_gpus<gemm_tiles::narrow>(g);
  };
  with_all_tiles(test::integer_gemm({260, 264, 328}));
  with_all_tiles(test::integer_gemm<float16>({260, 264, 328}));
}

TEST(gemm_kernel, real_values_stay_within_one_rounding_a_term) {
  const gemm_case g = test::real_gemm({140, 72, 264});
  EXPECT_EQ(wrong_on_the_machine<pair_of_floats>(g, {}, 264), "");
  EXPECT_EQ(wrong_on_the_machine<pair>(g, {}, 264), "");
  const auto halves = test::real_gemm<float16>({140, 72, 264});
  EXPECT_EQ(wrong_on_the_machine<pair_of_halves>(halves, {}, 264), "");
}

TEST(gemm_kernel, alpha_and_beta_scale_the_product_and_what_was_there) {
  const gemm_case g = test::integer_gemm({130, 72, 72});
  for (const sim::options& how : test::product_schedules) {
    std::vector<float> floats(g.c.size(), 6.0f);
    test::run_group_gemm<scaled_floats>(g, {.how = how, .alpha = -2, .beta = 0.5f}, floats);
    EXPECT_EQ(test::wrong_element(scaled(g, -2, 0.5, 6), floats.data()), "");
    std::vector<bfloat16> halves(g.c.size(), bfloat16{6.0f});
    test::run_group_gemm<scaled_pair>(g, {.how = how, .alpha = -2, .beta = 0.5f}, halves);
    EXPECT_EQ(test::wrong_element(scaled(g, -2, 0.5, 6), halves.data()), "");
    const auto of_fp16 = test::integer_gemm<float16>({130, 72, 72});
    std::vector<float16> fp16(g.c.size(), float16{6.0f});
    test::run_group_gemm<scaled_halves>(of_fp16, {.how = how, .alpha = -2, .beta = 0.5f}, fp16);
    EXPECT_EQ(test::wrong_element(scaled(of_fp16, -2, 0.5, 6), fp16.data()), "");
  }
}

template <config C, class In>
void expect_epilogues_on_the_machine(const test::typed_gemm_case<In>& g, const sim::options& how) {
  using out = out_of<C>;
  const std::vector<out> own = test::biases<out>(g.size.n);
  const std::vector<float> fp32 = test::biases<float>(g.size.n);
  for (const test::epilogue_case& e : test::epilogue_cases()) {
    std::vector<out> c = test::what_was_there<out>(e, g.c.size());
    test::run_group_gemm<C>(test::problem_of<gemm_kernels::operands<out, In>>(
                                e, g.size, g.a.data(), g.b.data(), c.data(), own.data(), fp32.data()),
                            {.how = how});
    EXPECT_EQ(test::wrong_epilogue(e, g, c.data()), "");
  }
}

TEST(gemm_kernel, a_bias_of_each_column_and_an_activation_come_behind_the_sums) {
  const gemm_case g = test::integer_gemm({130, 72, 72});
  const auto halves = test::integer_gemm<float16>({130, 136, 72});
  expect_epilogues_on_the_machine<scaled_floats>(g, test::product_schedules[0]);
  expect_epilogues_on_the_machine<scaled_pair>(g, test::product_schedules[1]);
  expect_epilogues_on_the_machine<scaled_halves>(halves, test::product_schedules[2]);
}

TEST(gemm_kernel, nothing_to_sum_gives_zeros_or_what_was_there) {
  const gemm_case g = test::integer_gemm({130, 72, 0});
  EXPECT_EQ(wrong_on_the_machine<pair>(g, {}), "");
  std::vector<float> out(g.c.size(), 6.0f);
  test::run_group_gemm<scaled_floats>(g, {.alpha = 3, .beta = 0.5f}, out);
  EXPECT_EQ(out, std::vector<float>(g.c.size(), 3.0f));
}

TEST(gemm_kernel, the_number_of_clusters_changes_no_bit) {
  const gemm_case g = test::real_gemm({600, 200, 72});
  std::vector<float> one(g.c.size()), five(g.c.size());
  test::run_group_gemm<pair_of_floats>(g, {.clusters = 1}, one);
  test::run_group_gemm<pair_of_floats>(g, {.clusters = 5}, five);
  EXPECT_EQ(one, five);
}

/// Bugs: a context that leaves one thing out.
enum class mistake {
  none,
  releases_before_awaiting,
  awaits_one_too_few_at_the_end,
  expects_half_the_bytes,
  takes_the_other_parity,
  forgets_the_proxy_fence,
  reuses_results_too_early,
  leaves_too_early,
};

/// One class for all of them: each kernel that it is compiled with takes seconds.
struct mistaken : sim::context {
  using base = sim::context;
  static inline mistake made = mistake::none;
  int times_synchronised = 0;

  explicit mistaken(const base& x) : base{x} {}
  template <int newest, class... Accumulators>
  void await_products(Accumulators&... acc) {
    constexpr bool is_last = sizeof...(acc) > 0;
    if (made == (is_last ? mistake::awaits_one_too_few_at_the_end : mistake::releases_before_awaiting))
      base::template await_products<newest + 1>(acc...);
    else
      base::template await_products<newest>(acc...);
  }
  template <scope Reach = scope::cluster>
  void mbarrier_arrive_expect(mbarrier* b, int bytes) {
    base::template mbarrier_arrive_expect<Reach>(b,
                                                 made == mistake::expects_half_the_bytes ? bytes / 2 : bytes);
  }
  template <scope S>
  bool mbarrier_wait(mbarrier* b, parity p, const wait_site& where) {
    const bool is_other = made == mistake::takes_the_other_parity && where.where == site{"gemm.slot_filled"};
    return base::template mbarrier_wait<S>(b, is_other ? !p : p, where);
  }
  void fence_proxy_async() {
    if (made != mistake::forgets_the_proxy_fence) base::fence_proxy_async();
  }
  template <int newest = 0>
  void bulk_wait_read() {
    if (made != mistake::reuses_results_too_early || newest == 0) base::template bulk_wait_read<newest>();
  }
  void sync_cluster() {
    if (made != mistake::leaves_too_early || times_synchronised++ == 0) base::sync_cluster();
  }
};

/// In how many of the schedules the bug shows, as a wrong value or an error. A tile is stored in four parts through two places.
int schedules_that_show(mistake m) {
  constexpr config two_places{.columns = 128, .stages = 2, .float_out = true};
  const gemm_case g = test::integer_gemm({300, 136, 328});
  mistaken::made = m;
  int shown = 0;
  for (const auto order : {sim::schedule::random, sim::schedule::priority}) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      std::vector<float> out(g.c.size(), -1.0f);
      try {
        test::run_group_gemm<two_places, mistaken>(
            g, {.how = {.order = order, .seed = seed, .delay_stores = true, .faults = {}}}, out);
        shown += test::wrong_element(g, out.data()).empty() ? 0 : 1;
      } catch (const error&) {
        ++shown;
      }
    }
  }
  return shown;
}

TEST(gemm_kernel, without_a_mistake_nothing_shows) {
  EXPECT_EQ(schedules_that_show(mistake::none), 0);
}

TEST(gemm_kernel, every_planted_mistake_shows) {
  EXPECT_GT(schedules_that_show(mistake::releases_before_awaiting), 0);
  EXPECT_EQ(schedules_that_show(mistake::awaits_one_too_few_at_the_end), 6);
  EXPECT_GT(schedules_that_show(mistake::expects_half_the_bytes), 3);
  EXPECT_EQ(schedules_that_show(mistake::takes_the_other_parity), 6);
  EXPECT_EQ(schedules_that_show(mistake::forgets_the_proxy_fence), 6);
  EXPECT_GT(schedules_that_show(mistake::reuses_results_too_early), 0);
  EXPECT_GT(schedules_that_show(mistake::leaves_too_early), 0);
}

TEST(gemm_kernel, a_slot_that_is_never_filled_is_on_record_and_everybody_returns) {
  struct never_loads : sim::context {
    explicit never_loads(const sim::context& x) : sim::context{x} {}
    void tensor_load(void*, const tensor_map&, box_origin, mbarrier*) {}
  };
  const gemm_case g = test::integer_gemm({64, 64, 64});
  std::vector<bfloat16> out(g.c.size());
  std::uint32_t abort = 0;
  stuck_record record{};
  test::run_group_gemm<pair, never_loads>(
      g, {.clusters = 1, .limits = {.deadline_ns = 1000, .abort = &abort, .record = &record}}, out);
  EXPECT_EQ(record.where, site{"gemm.slot_filled"});
  EXPECT_EQ(record.complete, 1u);
  EXPECT_EQ(abort, 1u);
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
