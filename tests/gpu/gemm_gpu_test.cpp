// The product of groups on a GPU: exact on integers at sizes around its tiles' borders, within its bound on reals, the same bits
// again.
#include "baton/gemm.hpp"

#include <limits>

#include "baton/device_buffer.hpp"
#include "tests/gpu/gpu_case.hpp"
#include "tests/support/epilogue_case.hpp"
#include "tests/support/gemm_case.hpp"

namespace baton {
namespace {

using test::gemm_case;
using test::gemm_size;

/// Every kernel that there is: the tiles, and how many blocks share out k.
constexpr gemm_config all_configs[] = {{.tiles = gemm_tiles::paired, .splits = 1},
                                       {.tiles = gemm_tiles::wide, .splits = 1},
                                       {.tiles = gemm_tiles::medium, .splits = 1},
                                       {.tiles = gemm_tiles::narrow, .splits = 1},
                                       {.splits = 2},
                                       {.splits = 4},
                                       {.splits = 8}};
std::string text(const gemm_config& c) {
  return std::string{name(c.tiles)} + " " + std::to_string(c.splits);
}

struct scaling {
  float alpha = 1, beta = 0, before = -1;
};

class gemm_gpu : public test::gpu_case {
 protected:
  void SetUp() override {
    test::gpu_case::SetUp();
    if (!IsSkipped()) worlds_ = world::local(1, device_kind::cuda);
  }
  template <class Out, class In>
  std::vector<Out> product(const test::typed_gemm_case<In>& g, const gemm_config& config = {},
                           const scaling& s = {}, gemm_b_layout layout = gemm_b_layout::n_by_k) {
    const device_buffer<In> a{worlds_[0], g.a},
        b{worlds_[0], layout == gemm_b_layout::k_by_n ? test::b_of_rows_of_k(g) : g.b};
    device_buffer<Out> c{worlds_[0], std::vector<Out>(g.c.size(), Out{s.before})};
    gemm(worlds_[0],
         gemm_problem<Out, In>{.a = a.data(),
                               .b = b.data(),
                               .c = c.data(),
                               .m = g.size.m,
                               .n = g.size.n,
                               .k = g.size.k,
                               .alpha = s.alpha,
                               .beta = s.beta,
                               .b_layout = layout},
         config);
    return c.to_host();
  }
  /// By every kernel.
  template <class Out, class In>
  void expect_right(const test::typed_gemm_case<In>& g, int steps = 0) {
    for (const gemm_config& config : all_configs)
      EXPECT_EQ(test::wrong_element(g, product<Out>(g, config).data(), steps), "") << text(config);
  }
  /// Each, by every kernel.
  template <class Out, class In>
  void expect_epilogues(const test::typed_gemm_case<In>& g) {
    const device_buffer<In> a{worlds_[0], g.a}, b{worlds_[0], g.b};
    const device_buffer<Out> own{worlds_[0], test::biases<Out>(g.size.n)};
    const device_buffer<float> fp32{worlds_[0], test::biases<float>(g.size.n)};
    for (const test::epilogue_case& e : test::epilogue_cases()) {
      for (const gemm_config& config : all_configs) {
        device_buffer<Out> c{worlds_[0], test::what_was_there<Out>(e, g.c.size())};
        gemm(worlds_[0],
             test::problem_of<gemm_problem<Out, In>>(e, g.size, a.data(), b.data(), c.data(), own.data(),
                                                     fp32.data()),
             config);
        EXPECT_EQ(test::wrong_epilogue(e, g, c.to_host().data()), "") << text(config);
      }
    }
  }
  std::vector<world> worlds_;
};

TEST_F(gemm_gpu, integers_are_exact_at_sizes_around_the_tiles_borders) {
  for (const auto& size : {gemm_size{1, 8, 8},
                           {64, 64, 64},
                           {128, 256, 64},
                           {129, 264, 72},
                           {256, 256, 256},
                           {255, 248, 248},
                           {257, 512, 320},
                           {300, 136, 200},
                           {1, 2048, 512},
                           {2048, 8, 512},
                           {512, 640, 1024}}) {
    const gemm_case g = test::integer_gemm(size);
    expect_right<float>(g);
    expect_right<bfloat16>(g);
    const auto halves = test::integer_gemm<float16>(size);
    expect_right<float>(halves);
    expect_right<float16>(halves);
  }
}

TEST_F(gemm_gpu, integers_are_exact_at_sizes_that_are_drawn) {
  std::mt19937 random{5};
  const auto up_to = [&](int most) { return 1 + static_cast<int>(random() % static_cast<unsigned>(most)); };
  for (std::uint32_t i = 0; i < 60; ++i) {
    const gemm_size size{up_to(700), 8 * up_to(80), 8 * up_to(60)};
    const gemm_case g = test::integer_gemm(size, i);
    expect_right<float>(g);
    expect_right<bfloat16>(g);
    const auto halves = test::integer_gemm<float16>(size, i);
    expect_right<float>(halves);
    expect_right<float16>(halves);
  }
}

TEST_F(gemm_gpu, the_layout_of_b_changes_no_bit) {
  for (const auto& size :
       {gemm_size{1, 8, 8}, {129, 264, 72}, {300, 136, 200}, {512, 640, 1024}, {9, 520, 0}}) {
    const gemm_case g = test::real_gemm(size);
    const auto halves = test::real_gemm<float16>(size);
    for (const gemm_config& config : all_configs) {
      const auto as_rows_of_k = [&]<class Out>(Out, const auto& of) {
        return product<Out>(of, config, {}, gemm_b_layout::k_by_n);
      };
      EXPECT_EQ(as_rows_of_k(0.0f, g), product<float>(g, config)) << test::text(size) << text(config);
      EXPECT_EQ(as_rows_of_k(bfloat16{}, g), product<bfloat16>(g, config))
          << test::text(size) << text(config);
      EXPECT_EQ(as_rows_of_k(0.0f, halves), product<float>(halves, config))
          << test::text(size) << text(config);
      EXPECT_EQ(as_rows_of_k(float16{}, halves), product<float16>(halves, config))
          << test::text(size) << text(config);
    }
  }
}

TEST_F(gemm_gpu, few_sms_take_many_tiles_each) {
  const gemm_case g = test::integer_gemm({900, 1000, 136});
  for (const int sms : {1, 2, 7, 1000})
    for (const int splits : {0, 1, 2, 8})
      EXPECT_EQ(test::wrong_element(g, product<float>(g, {.num_sms = sms, .splits = splits}).data()), "")
          << sms << " " << splits;
}

TEST_F(gemm_gpu, real_values_stay_within_one_rounding_a_term) {
  const gemm_case g = test::real_gemm({190, 264, 776});
  expect_right<float>(g, 776);
  expect_right<bfloat16>(g, 776);
  const auto halves = test::real_gemm<float16>({190, 264, 776});
  expect_right<float>(halves, 776);
  expect_right<float16>(halves, 776);
}

TEST_F(gemm_gpu, tiles_sms_and_the_run_change_no_bit) {
  const gemm_case g = test::real_gemm({700, 896, 264});
  using enum gemm_tiles;
  const auto first = product<float>(g, {.splits = 1});
  for (const int sms : {2, 50, 0})
    for (const gemm_tiles tiles : {paired, wide, medium, narrow})
      EXPECT_EQ(first, product<float>(g, {tiles, sms, 1})) << name(tiles) << " " << sms;
  for (const int splits : {2, 4, 8}) {
    const auto shared_out = product<float>(g, {.splits = splits});
    for (const int sms : {8, 50, 0})
      EXPECT_EQ(shared_out, product<float>(g, {.num_sms = sms, .splits = splits})) << splits << " " << sms;
  }
}

TEST_F(gemm_gpu, alpha_and_beta_scale_the_product_and_what_was_there) {
  for (const auto& size : {gemm_size{300, 264, 136}, {130, 72, 0}}) {
    gemm_case g = test::integer_gemm(size);
    for (double& v : g.c) v = -2 * v + 0.5 * 6;
    const scaling s{-2, 0.5f, 6};
    for (const gemm_config& config : all_configs) {
      EXPECT_EQ(test::wrong_element(g, product<float>(g, config, s).data()), "") << text(config);
      EXPECT_EQ(test::wrong_element(g, product<bfloat16>(g, config, s).data()), "") << text(config);
    }
    auto halves = test::integer_gemm<float16>(size);
    for (double& v : halves.c) v = -2 * v + 0.5 * 6;
    for (const gemm_config& config : all_configs) {
      EXPECT_EQ(test::wrong_element(halves, product<float>(halves, config, s).data()), "") << text(config);
      EXPECT_EQ(test::wrong_element(halves, product<float16>(halves, config, s).data()), "") << text(config);
    }
  }
}

TEST_F(gemm_gpu, a_bias_of_each_column_and_an_activation_come_behind_the_sums) {
  for (const auto& size : {gemm_size{300, 264, 136}, {130, 72, 0}, {1, 520, 64}}) {
    const gemm_case g = test::integer_gemm(size);
    expect_epilogues<float>(g);
    expect_epilogues<bfloat16>(g);
    const auto halves = test::integer_gemm<float16>(size);
    expect_epilogues<float>(halves);
    expect_epilogues<float16>(halves);
  }
}

TEST_F(gemm_gpu, what_was_there_is_not_read_where_beta_is_zero) {
  gemm_case g = test::integer_gemm({140, 72, 64});
  for (double& v : g.c) v *= 4;
  const auto c = product<float>(g, {}, {4, 0, std::numeric_limits<float>::quiet_NaN()});
  EXPECT_EQ(test::wrong_element(g, c.data()), "");
}

TEST_F(gemm_gpu, nothing_to_sum_gives_zeros) {
  const gemm_case g = test::integer_gemm({300, 72, 0});
  expect_right<float>(g);
  expect_right<bfloat16>(g);
}

TEST_F(gemm_gpu, repeats_in_a_graph_give_the_same_bits) {
  const gemm_case g = test::integer_gemm({300, 304, 304});
  const device_buffer<bfloat16> a{worlds_[0], g.a}, b{worlds_[0], g.b};
  device_buffer<bfloat16> c{worlds_[0], g.c.size()};
  cudaStream_t stream = nullptr;
  test::must(cudaStreamCreate(&stream), "making a stream");
  test::must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capturing");
  gemm(worlds_[0], gemm_problem<bfloat16>{a.data(), b.data(), c.data(), 300, 304, 304}, {}, {stream});
  cudaGraph_t graph = nullptr;
  test::must(cudaStreamEndCapture(stream, &graph), "capturing");
  cudaGraphExec_t replay = nullptr;
  test::must(cudaGraphInstantiate(&replay, graph, 0), "instantiating");
  for (int i = 0; i < 20; ++i) test::must(cudaGraphLaunch(replay, stream), "replaying");
  test::must(cudaStreamSynchronize(stream), "running");
  EXPECT_EQ(test::wrong_element(g, c.to_host().data()), "");
  cudaGraphExecDestroy(replay);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

}  // namespace
}  // namespace baton
