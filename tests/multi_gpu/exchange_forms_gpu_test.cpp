// The forms in which callers have what they give to a round, on two GPUs of one process.
#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <memory>

#include "baton/error.hpp"
#include "tests/support/exchange_cases.hpp"
#include "tests/support/gpu_count.hpp"

namespace baton::test {
namespace {

class exchange_forms_gpu : public testing::TestWithParam<travel> {};

INSTANTIATE_TEST_SUITE_P(cuda, exchange_forms_gpu, testing::ValuesIn(every_travel),
                         [](const auto& how) { return name(how.param); });

/// Host memory that GPUs write.
class pinned_counts {
 public:
  explicit pinned_counts(std::size_t size) : size_{size} {
    void* at = nullptr;
    EXPECT_EQ(cudaHostAlloc(&at, size * sizeof(std::int32_t), cudaHostAllocPortable), cudaSuccess);
    at_ = static_cast<std::int32_t*>(at);
  }
  pinned_counts(const pinned_counts&) = delete;
  pinned_counts& operator=(const pinned_counts&) = delete;
  ~pinned_counts() { cudaFreeHost(at_); }
  std::int32_t* data() { return at_; }
  void clear() { std::fill(at_, at_ + size_, -1); }
  /// Once all have been written, or the deadline has passed.
  std::vector<std::int32_t> polled() const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{10};
    std::vector<std::int32_t> all(size_, -1);
    for (std::size_t i = 0; i < size_ && std::chrono::steady_clock::now() < deadline;
         i += all[i] >= 0 ? 1 : 0)
      all[i] = std::atomic_ref<std::int32_t>{at_[i]}.load(std::memory_order_relaxed);
    return all;
  }

 private:
  std::int32_t* at_ = nullptr;
  std::size_t size_;
};

TEST_P(exchange_forms_gpu,
       ids_of_64_bits_given_tokens_alignment_fewer_sms_counts_and_loads_are_right_together) {
  BATON_REQUIRE_GPUS(2);
  const auto worlds = world::local(2, device_kind::cuda);
  using enum token_format;
  for (const auto& [format, given] : {std::pair{blockwise_fp8, true},
                                      {blockwise_fp8, false},
                                      {mxfp8, true},
                                      {mxfp4, true},
                                      {nvfp4, true}}) {
    exchange_case c{2, sizes(33, 8, 1408, 128), {128, 37}, routing::sparse};
    c = travelling(GetParam(), std::move(c), format);
    if (!carries(c.config.transfer, format)) continue;
    c.config.row_alignment = 64;
    c.wide_ids = true;
    c.given_tokens = given;
    auto ranks = make_ranks(worlds, c.config);
    std::vector<device_buffer<std::int64_t>> load;
    std::vector<std::unique_ptr<pinned_counts>> counts;
    std::vector<std::vector<std::int64_t>> sums;
    for (auto& rank : ranks) {
      const auto experts = static_cast<std::size_t>(rank.ep().local_experts().count);
      sums.emplace_back(experts);
      load.emplace_back(rank.ranks(), experts);
      counts.push_back(std::make_unique<pinned_counts>(experts + 1));
      rank.options = {.dispatch_sms = 5,
                      .combine_sms = load.size() == 1 ? 0 : 9,
                      .host_counts = counts.back()->data(),
                      .expert_load = load.back().data()};
    }
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      for (auto& each : counts) each->clear();
      ASSERT_EQ(run_round(c, ranks, seed, seed % 2 == 0 ? calls::apart : calls::fused), "");
      for (std::size_t r = 0; r < 2; ++r) {
        const received_copy got = ranks[r].read_received();
        std::vector<std::int32_t> expected = got.row_counts;
        expected.push_back(got.row_offsets.back());
        EXPECT_EQ(counts[r]->polled(), expected);
        for (std::size_t e = 0; e < sums[r].size(); ++e) sums[r][e] += got.row_counts[e];
        EXPECT_EQ(load[r].to_host(), sums[r]);
      }
    }
  }
}

TEST_P(exchange_forms_gpu, counts_can_be_polled_without_waiting_for_the_stream) {
  BATON_REQUIRE_GPUS(2);
  const exchange_case c =
      travelling(GetParam(), {2, sizes(16, 4, 256, 64), {64, 3}, routing::distinct}, token_format::bf16);
  auto ranks = make_ranks(world::local(2, device_kind::cuda), c.config);
  const auto inputs = draw_inputs(c, 1);
  std::vector<std::unique_ptr<pinned_counts>> counts;
  for (std::size_t r = 0; r < 2; ++r) {
    counts.push_back(std::make_unique<pinned_counts>(9));
    counts[r]->clear();
    ranks[r].options.host_counts = counts[r]->data();
    ranks[r].load(inputs[r]);
  }
  for (auto& rank : ranks) rank.dispatch();
  for (std::size_t r = 0; r < 2; ++r) {
    std::vector<std::int32_t> polled = counts[r]->polled();
    const received_copy got = ranks[r].read_received();
    EXPECT_EQ(polled.back(), got.row_offsets.back());
    polled.pop_back();
    EXPECT_EQ(polled, got.row_counts);
  }
}

TEST_P(exchange_forms_gpu, host_counts_in_memory_that_a_gpu_cannot_write_are_refused) {
  BATON_REQUIRE_GPUS(1);
  int reaches_all = 0;
  cudaDeviceGetAttribute(&reaches_all, cudaDevAttrPageableMemoryAccess, 0);
  if (reaches_all != 0) GTEST_SKIP() << "this GPU reaches all host memory";
  const exchange_case c = travelling(GetParam(), {1, sizes(4, 2, 16, 2), {2}, routing::distinct});
  auto ranks = make_ranks(world::local(1, device_kind::cuda), c.config);
  std::vector<std::int32_t> counts(5);
  ranks[0].load(draw_inputs(c, 1)[0]);
  ranks[0].options.host_counts = counts.data();
  try {
    ranks[0].dispatch();
    FAIL() << "not refused";
  } catch (const invalid_argument& e) {
    EXPECT_NE(std::string{e.what()}.find("pinned memory"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace baton::test
