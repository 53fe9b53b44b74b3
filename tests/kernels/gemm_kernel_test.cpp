// The product as its kernel runs on the CPU machine, and bugs planted into that.
#include <cstdint>
#include <string>
#include <vector>

#include "baton/error.hpp"
#include "baton/gemm.hpp"
#include "kernels/gemm/instances.hpp"
#include "tests/support/epilogue_case.hpp"
#include "tests/support/group_gemm_runs.hpp"

namespace baton {
namespace {

using gemm_kernels::config;
using gemm_kernels::operand_type;
using gemm_kernels::why_not;
using test::gemm_case;
using test::gemm_size;

// Small tiles, to be quick.
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
    EXPECT_EQ(test::wrong_element(test::scaled(g, -2, 0.5, 6), floats.data()), "");
    std::vector<bfloat16> halves(g.c.size(), bfloat16{6.0f});
    test::run_group_gemm<scaled_pair>(g, {.how = how, .alpha = -2, .beta = 0.5f}, halves);
    EXPECT_EQ(test::wrong_element(test::scaled(g, -2, 0.5, 6), halves.data()), "");
    const auto of_fp16 = test::integer_gemm<float16>({130, 72, 72});
    std::vector<float16> fp16(g.c.size(), float16{6.0f});
    test::run_group_gemm<scaled_halves>(of_fp16, {.how = how, .alpha = -2, .beta = 0.5f}, fp16);
    EXPECT_EQ(test::wrong_element(test::scaled(of_fp16, -2, 0.5, 6), fp16.data()), "");
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

}  // namespace
}  // namespace baton
