#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <string>
#include <vector>

#include "baton/device_buffer.hpp"
#include "baton/device_facts.hpp"
#include "baton/error.hpp"
#include "cli/bench/probe/probe.hpp"
#include "runtime/world_state.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/gpu_count.hpp"

namespace baton::test {
namespace {

class world_gpu : public testing::Test {
 protected:
  void SetUp() override {
    if (num_gpus() < 1) GTEST_SKIP() << "needs a GPU, found none";
  }
};

TEST_F(world_gpu, the_facts_agree_with_the_world) {
  const device_facts facts = read_device_facts();
  ASSERT_EQ(facts.gpus.size(), static_cast<std::size_t>(num_gpus())) << facts.cuda_problem;
  EXPECT_FALSE(facts.driver.empty());
  const auto worlds = world::local(1, device_kind::cuda);
  EXPECT_EQ(sms_of(worlds[0]), facts.gpus[0].num_sms);
  EXPECT_EQ(facts.gpus[0].has_kernels, true);
  EXPECT_EQ(auto_device(), device_kind::cuda);
}

TEST_F(world_gpu, ranks_that_share_a_gpu_share_its_sms) {
  const int num_ranks = 2 * num_gpus();
  const auto worlds = world::local(num_ranks, device_kind::cuda);
  const auto alone = world::local(1, device_kind::cuda);
  for (const world& w : worlds) {
    EXPECT_EQ(w.device_index(), w.rank() % num_gpus());
    EXPECT_EQ(w.state().ranks_on_device, 2);
  }
  EXPECT_EQ(sms_of(worlds[0]), sms_of(alone[0]) / 2);
}

TEST_F(world_gpu, a_device_that_is_not_there_is_named) {
  world_config c;
  c.device = device_kind::cuda;
  c.device_index = 99;
  EXPECT_TRUE(says(message_of<unsupported>([&] { world::create(c); }),
                   "device_index: 99, expected 0 to " + std::to_string(num_gpus() - 1)));
}

TEST_F(world_gpu, the_callers_current_device_is_left_alone) {
  int before = -1, after = -1;
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  ASSERT_EQ(cudaGetDevice(&before), cudaSuccess);
  const auto worlds = world::local(num_gpus(), device_kind::cuda);
  const device_buffer<std::byte> buffer{worlds.back(), 100};
  worlds.back().synchronize();
  ASSERT_EQ(cudaGetDevice(&after), cudaSuccess);
  EXPECT_EQ(before, after);
}

TEST_F(world_gpu, copies_and_fills_keep_the_order_of_their_stream) {
  const auto worlds = world::local(1, device_kind::cuda);
  const world& w = worlds[0];
  constexpr std::size_t bytes = 100'003;
  device_buffer<unsigned char> a{w, bytes}, b{w, bytes};
  std::vector<unsigned char> in(bytes), out(bytes, 0xee);
  for (const unsigned char byte : a.to_host()) ASSERT_EQ(byte, 0);
  std::iota(in.begin(), in.end(), std::uint8_t{1});
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  a.copy_from_async(in, {stream});
  copy_async(w, b.data(), a.data(), bytes, {stream});
  fill_async(w, b.data(), 0xff, 4, {stream});
  b.copy_to_async(out, {stream});
  w.synchronize({stream});
  for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(out[i], i < 4 ? 0xff : in[i]) << i;
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST_F(world_gpu, a_buffer_of_values_does_not_wait_for_any_stream) {
  const auto worlds = world::local(1, device_kind::cuda);
  std::vector<int> values(100'003);
  std::iota(values.begin(), values.end(), 1);
  cudaStream_t held = nullptr;
  ASSERT_EQ(cudaStreamCreate(&held), cudaSuccess);  // in order with the default stream
  std::atomic<bool> go = false;
  ASSERT_EQ(cudaLaunchHostFunc(
                held, [](void* flag) { static_cast<std::atomic<bool>*>(flag)->wait(false); }, &go),
            cudaSuccess);
  device_buffer<int> b{worlds[0], values};
  b.fill_async(0, {held});
  const device_buffer<int> taker = std::move(b);
  EXPECT_EQ(cudaStreamQuery(held), cudaErrorNotReady) << "made while the stream was held";
  go = true;
  go.notify_one();
  EXPECT_EQ(cudaStreamSynchronize(held), cudaSuccess);
  EXPECT_EQ(taker.to_host(), std::vector<int>(values.size()));
  EXPECT_EQ((device_buffer<int>{worlds[0], values}.to_host()), values);
  EXPECT_EQ(cudaStreamDestroy(held), cudaSuccess);
}

TEST_F(world_gpu, too_much_memory_leaves_the_device_usable) {
  const auto worlds = world::local(1, device_kind::cuda);
  constexpr std::size_t too_much = std::size_t{1} << 44;
  EXPECT_THROW((device_buffer<std::byte>{worlds[0], too_much}), out_of_memory);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_NO_THROW((device_buffer<std::byte>{worlds[0], 1000}));
}

TEST_F(world_gpu, a_stuck_record_becomes_an_error_once_and_clears_the_abort_word) {
  const auto worlds = world::local(1, device_kind::cuda);
  const detail::report_memory& memory = worlds[0].state().reports;
  stuck_record r{};
  r.claimed = r.complete = 1;
  r.peer = 6;
  r.where = "combine.arrival";
  // Through the kernels' address, as a kernel would.
  ASSERT_EQ(cudaMemcpy(memory.record_device, &r, sizeof r, cudaMemcpyDefault), cudaSuccess);
  const std::uint32_t one = 1;
  ASSERT_EQ(cudaMemcpy(memory.abort_device, &one, sizeof one, cudaMemcpyDefault), cudaSuccess);
  EXPECT_THROW(worlds[0].synchronize(), stuck);
  std::uint32_t abort = 7;
  ASSERT_EQ(cudaMemcpy(&abort, memory.abort_device, sizeof abort, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(abort, 0u);
  EXPECT_NO_THROW(worlds[0].synchronize());
}

TEST_F(world_gpu, the_link_probe_of_one_gpu_measures_its_own_memory) {
  const auto worlds = world::local(1, device_kind::cuda);
  const probe::link_report report = probe::measure_links(worlds);
  EXPECT_EQ(report.between, "two buffers of one GPU");
  ASSERT_EQ(report.egress_gb_per_s.size(), 1u);
  EXPECT_GT(report.egress_gb_per_s[0].median, 100.0);
  EXPECT_GT(report.flag_us.lowest, 0.05);
}

}  // namespace
}  // namespace baton::test
