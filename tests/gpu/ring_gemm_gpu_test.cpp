// The ring-buffered product on a GPU: exact on integers at odd sizes with every strategy, within its bound on reals.
#include "baton/error.hpp"
#include "tests/gpu/gpu_case.hpp"
#include "tests/support/ring_gemm_case.hpp"

namespace baton {
namespace {

using test::both_sides;
using test::gemm_case;
using test::gemm_size;

class ring_gemm_gpu : public test::gpu_case {
 protected:
  void SetUp() override {
    test::gpu_case::SetUp();
    if (!IsSkipped()) worlds_ = world::local(1, device_kind::cuda);
  }
  std::vector<float> product(const gemm_case& g, const ring_gemm_config& c) {
    const both_sides<bfloat16> a{g.a}, b{g.b};
    const both_sides<float> out{std::vector<float>(g.c.size(), -1.0f)};
    ring_gemm(worlds_[0], {a.data(), b.data(), out.data(), g.size.m, g.size.n, g.size.k}, c);
    worlds_[0].synchronize();
    return {out.data(), out.data() + out.size()};
  }
  std::vector<world> worlds_;
};

TEST_F(ring_gemm_gpu, integers_are_exact_at_odd_sizes_with_every_strategy_and_tile) {
  for (const auto& size : {gemm_size{1, 1, 1},
                           {64, 64, 64},
                           {128, 128, 128},
                           {65, 63, 129},
                           {129, 257, 72},
                           {333, 1, 1000},
                           {1, 500, 64},
                           {200, 300, 500},
                           {512, 640, 1024}}) {
    const gemm_case g = test::integer_gemm(size);
    for (const auto strategy : test::all_ring_strategies) {
      for (const auto tiles : {ring_gemm_tiles::small, ring_gemm_tiles::large})
        EXPECT_EQ(test::wrong_element(g, product(g, {strategy, tiles, 0}).data()), "") << name(strategy);
    }
  }
}

TEST_F(ring_gemm_gpu, few_sms_take_many_tiles_each) {
  const gemm_case g = test::integer_gemm({700, 900, 264});
  for (const auto strategy : test::all_ring_strategies)
    EXPECT_EQ(test::wrong_element(g, product(g, {strategy, ring_gemm_tiles::small, 3}).data()), "")
        << name(strategy);
}

TEST_F(ring_gemm_gpu, real_values_stay_within_one_rounding_a_term) {
  const gemm_case g = test::real_gemm({190, 260, 777});
  const auto first = product(g, {.strategy = ring_strategy::mbarrier});
  EXPECT_EQ(test::wrong_element(g, first.data(), 777), "");
  for (const auto strategy : test::all_ring_strategies) EXPECT_EQ(first, product(g, {.strategy = strategy}));
}

TEST_F(ring_gemm_gpu, nothing_to_sum_gives_zeros) {
  EXPECT_EQ(product(test::integer_gemm({5, 6, 0}), {}), std::vector<float>(30, 0.0f));
}

TEST_F(ring_gemm_gpu, repeats_in_a_graph_give_the_same_bits) {
  const gemm_case g = test::integer_gemm({300, 300, 300});
  const both_sides<bfloat16> a{g.a}, b{g.b};
  const both_sides<float> out{g.c.size()};
  cudaStream_t stream = nullptr;
  test::must(cudaStreamCreate(&stream), "making a stream");
  test::must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capturing");
  ring_gemm(worlds_[0], {a.data(), b.data(), out.data(), 300, 300, 300}, {}, {stream});
  cudaGraph_t graph = nullptr;
  test::must(cudaStreamEndCapture(stream, &graph), "capturing");
  cudaGraphExec_t replay = nullptr;
  test::must(cudaGraphInstantiate(&replay, graph, 0), "instantiating");
  for (int i = 0; i < 20; ++i) test::must(cudaGraphLaunch(replay, stream), "replaying");
  test::must(cudaStreamSynchronize(stream), "running");
  EXPECT_EQ(test::wrong_element(g, out.data()), "");
  cudaGraphExecDestroy(replay);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

}  // namespace
}  // namespace baton
