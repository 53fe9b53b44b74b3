// Products whose k is shared out to blocks of a cluster: what `automatic` takes, and what is refused.
#include <gtest/gtest.h>

#include "baton/error.hpp"
#include "baton/gemm.hpp"
#include "kernels/gemm/config.hpp"
#include "kernels/gemm/tile_choice.hpp"
#include "tests/cpu/says.hpp"

namespace baton {
namespace {

using gemm_kernels::chosen_of;
using gemm_kernels::config;
using gemm_kernels::why_not;

TEST(split_gemm_config, k_is_shared_out_where_tiles_are_few_and_k_is_long) {
  constexpr int sms = 132;
  const auto of = [](int m, int n, int k) {
    return chosen_of(gemm_kernels::scaled_tile_rates, {.num_sms = sms}, m, n, k).splits;
  };
  EXPECT_EQ(of(8192, 8192, 8192), 1);
  EXPECT_EQ(of(128, 4096, 7168), 2);
  EXPECT_EQ(of(128, 1024, 7168), 4);
  EXPECT_EQ(of(128, 512, 7168), 8);
  EXPECT_EQ(of(512, 512, 8192), 2) << "clusters of 4 would take turns";
  EXPECT_EQ(of(256, 4096, 7168), 2) << "of medium tiles";
  EXPECT_EQ(of(1024, 1024, 4096), 2) << "of medium tiles";
  EXPECT_EQ(of(128, 7168, 2048), 1);
  EXPECT_EQ(of(1024, 1024, 1024), 1);
}

TEST(split_gemm_config, narrow_tiles_of_e4m3_are_of_blocks_that_share_out_k_alone) {
  for (const int n : {64, 128, 192, 4096, 8448})
    for (const int k : {0, 16, 128, 1024})
      for (const int splits : {0, 1}) {
        const auto chosen =
            chosen_of(gemm_kernels::scaled_tile_rates, {.num_sms = 132, .splits = splits}, 128, n, k);
        EXPECT_TRUE(chosen.tiles != gemm_tiles::narrow || chosen.splits > 1) << n << " x " << k;
      }
}

TEST(split_gemm_config, who_says_how_many_sms_gets_no_more_blocks) {
  for (const int sms : {1, 2, 3, 7, 8, 100}) {
    for (const int k : {1024, 65536, 1 << 20}) {
      const gemm_config config{.num_sms = sms};
      EXPECT_LE(chosen_of(gemm_kernels::tile_rates, config, 128, 64, k).splits, sms) << k;
      EXPECT_LE(chosen_of(gemm_kernels::scaled_tile_rates, config, 128, 64, k).splits, sms) << k;
    }
  }
}

TEST(split_gemm_config, what_is_asked_for_is_taken) {
  const auto of = [](const gemm_config& config) {
    return chosen_of(gemm_kernels::tile_rates, config, 128, 4096, 7168);
  };
  EXPECT_EQ(of({.num_sms = 132, .splits = 1}).splits, 1);
  EXPECT_EQ(of({.num_sms = 132, .splits = 8}).splits, 8);
  EXPECT_EQ(of({.num_sms = 1, .splits = 8}).splits, 8);
  EXPECT_EQ(of({.tiles = gemm_tiles::narrow, .num_sms = 132}).splits, 1);
  EXPECT_EQ(of({.num_sms = 132, .splits = 2}).tiles, gemm_tiles::narrow);
}

TEST(split_gemm_config, what_cannot_run_is_refused) {
  EXPECT_TRUE(test::says(why_not<config{.cluster = 2, .split = true}>(), "split: of one product"));
  EXPECT_TRUE(test::says(why_not<config{.cluster = 1, .grouped = true, .split = true}>(), "split: of one"));
  const auto worlds = world::local(1, device_kind::cpu);
  const auto refused = [&](const gemm_config& config) {
    return test::message_of<invalid_argument>([&] { gemm(worlds[0], gemm_problem<bfloat16>{}, config); });
  };
  EXPECT_TRUE(test::says(refused({.splits = 3}), "splits: 3, expected 1, 2, 4 or 8, or 0"));
  EXPECT_TRUE(test::says(refused({.splits = -1}), "splits: -1"));
  EXPECT_TRUE(
      test::says(refused({.tiles = gemm_tiles::narrow, .splits = 2}), "tiles: narrow", "splits is 2"));
}

}  // namespace
}  // namespace baton
