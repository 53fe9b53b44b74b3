// Windows on one GPU: one rank, and several that share it.
#include <gtest/gtest.h>

#include "baton/error.hpp"
#include "runtime/on_cuda.hpp"
#include "tests/support/gpu_count.hpp"
#include "tests/support/gpu_windows.cuh"

namespace baton::test {
namespace {

class window_gpu : public testing::Test {
 protected:
  void SetUp() override {
    if (num_gpus() < 1) GTEST_SKIP() << "needs a GPU, found none";
  }
};

TEST_F(window_gpu, one_rank_has_a_zeroed_window_of_its_own) {
  const auto worlds = world::local(1, device_kind::cuda);
  const auto window = make_window(worlds[0], window_bytes, "test", "");
  EXPECT_EQ(window->bytes(), window_bytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(window->peer(0)) % 256, 0u);
  EXPECT_EQ(window_fault(worlds[0], *window), "");
}

TEST_F(window_gpu, ranks_that_share_gpus_see_each_others_writes) {
  const int num_ranks = 2 * num_gpus() > most_ranks ? most_ranks : 2 * num_gpus();
  const auto worlds = world::local(num_ranks, device_kind::cuda);
  EXPECT_EQ(worlds[0].device_index(),
            worlds[static_cast<std::size_t>(num_gpus() % num_ranks)].device_index());
  on_every_rank(worlds, [&](int rank) {
    const world& w = worlds[static_cast<std::size_t>(rank)];
    const auto window = make_window(w, window_bytes, "test", "");
    EXPECT_EQ(window_fault(w, *window), "") << "rank " << rank;
  });
}

TEST_F(window_gpu, memory_given_back_comes_back_zeroed) {
  const auto worlds = world::local(1, device_kind::cuda);
  for (int turn = 0; turn < 20; ++turn) {
    const auto window = make_window(worlds[0], window_bytes, "test", "");
    ASSERT_EQ(window_fault(worlds[0], *window), "") << "turn " << turn;
  }
}

TEST_F(window_gpu, memory_that_was_released_is_free_and_comes_back_zeroed_at_the_same_addresses) {
  const int num_ranks = num_gpus() + 1;  // the last shares device 0 with the first
  constexpr std::size_t large = std::size_t{1} << 30;
  const auto worlds = world::local(num_ranks, device_kind::cuda);
  on_every_rank(worlds, [&](int rank) {
    const world& w = worlds[static_cast<std::size_t>(rank)];
    const auto window = make_window(w, large, "test", "");
    const auto meet = [&] {
      std::vector<char> all(worlds.size());
      w.all_gather("m", all.data(), 1);
    };
    const std::byte* const lay = window->peer(0);
    for (int turn = 0; turn < 3; ++turn) {
      EXPECT_EQ(window_fault(w, *window), "") << "rank " << rank << ", turn " << turn;
      meet();
      const std::size_t before = on_cuda::free_bytes(w.device_index());
      meet();
      window->release();
      EXPECT_GE(on_cuda::free_bytes(w.device_index()), before + large / 2);  // whatever else uses the GPU
      meet();
      window->reacquire();
      EXPECT_EQ(window->peer(0), lay);
    }
    EXPECT_EQ(window_fault(w, *window), "") << "rank " << rank;
  });
}

TEST_F(window_gpu, a_block_lives_until_the_last_rank_lets_go) {
  const int num_ranks = num_gpus() + 1;  // the last shares device 0 with the first
  const auto worlds = world::local(num_ranks, device_kind::cuda);
  std::vector<std::unique_ptr<symmetric_window>> windows(worlds.size());
  on_every_rank(worlds, [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    windows[r] = make_window(worlds[r], window_bytes, "test", "");
  });
  windows[0].reset();
  fill_async(worlds.back(), windows.back()->peer(0), 0x5a, window_bytes, {});
  EXPECT_NO_THROW(worlds.back().synchronize());
}

TEST_F(window_gpu, too_much_says_needed_free_and_which_knob_and_leaves_the_device_usable) {
  constexpr std::size_t too_much = std::size_t{1} << 44;
  const auto worlds = world::local(1, device_kind::cuda);
  try {
    make_window(worlds[0], too_much, "receive buffer", "lower num_max_tokens_per_rank");
    FAIL() << "nothing was thrown";
  } catch (const out_of_memory& e) {
    EXPECT_GE(e.needed, too_much);
    EXPECT_GT(e.free, 0u);
    EXPECT_NE(std::string{e.what()}.find("lower num_max_tokens_per_rank"), std::string::npos) << e.what();
  }
  const auto window = make_window(worlds[0], window_bytes, "test", "");
  EXPECT_EQ(window_fault(worlds[0], *window), "");
}

}  // namespace
}  // namespace baton::test
