// How many blocks and warps kernels of layout per_rank are launched with.
#include <gtest/gtest.h>

#include "kernels/ep/per_rank/grid.hpp"
#include "kernels/ep/per_rank/known_ranks.hpp"

namespace baton::ep::per_rank {
namespace {

constexpr int gpu_blocks = 132;

role_grid combine_of(int ranks, int tokens, half which = half::both, bool fp8_sums = false, int threads = 0,
                     int blocks = gpu_blocks) {
  shape s{256, ranks, 0, 8, 7168, tokens, token_format::blockwise_fp8};
  s.fp8_sums = fp8_sums;
  return grid_of_combine(endpoint::of(s), {.blocks = blocks, .threads = threads, .which = which}, tokens);
}

bool are(const role_grid& g, int blocks, int senders, int receivers) {
  return g.blocks == blocks && g.senders == senders && g.receivers == receivers;
}

TEST(exchange_role_grid, combine_of_two_ranks_has_more_warps_where_there_is_more_to_sum) {
  EXPECT_TRUE(are(combine_of(2, 1), 30, 1, 1));
  EXPECT_TRUE(are(combine_of(2, 32), gpu_blocks, 8, 8));
  EXPECT_TRUE(are(combine_of(2, 44), gpu_blocks, 10, 10)) << "all that the kernel of 20 warps has room for";
  EXPECT_TRUE(are(combine_of(2, 64), gpu_blocks, 10, 15));
  EXPECT_TRUE(are(combine_of(2, 128), gpu_blocks, 10, 20));
  EXPECT_TRUE(are(combine_of(2, 176), gpu_blocks, 10, 20));
  EXPECT_TRUE(are(combine_of(2, 177), gpu_blocks, 12, 20)) << "over 40 units for a block to send";
}

TEST(exchange_role_grid, combine_of_four_ranks_has_24_warps) {
  EXPECT_TRUE(are(combine_of(4, 128), gpu_blocks, 8, 16));
  EXPECT_TRUE(are(combine_of(4, 128, half::send), gpu_blocks, 24, 0));
}

TEST(exchange_role_grid,
     combine_of_other_ranks_of_sums_in_fp8_or_of_threads_that_were_asked_for_has_20_warps) {
  EXPECT_TRUE(are(combine_of(8, 128), gpu_blocks, 8, 12));
  EXPECT_TRUE(are(combine_of(4, 128, half::both, true), gpu_blocks, 8, 12));
  EXPECT_TRUE(are(combine_of(4, 128, half::both, false, 768), gpu_blocks, 10, 10));
  EXPECT_TRUE(are(combine_of(2, 128, half::both, true), gpu_blocks, 8, 12));
  EXPECT_TRUE(are(combine_of(2, 128, half::both, false, 768), gpu_blocks, 10, 10));
}

TEST(exchange_role_grid, a_half_has_the_warps_of_both) {
  EXPECT_TRUE(are(combine_of(2, 128, half::send), gpu_blocks, 30, 0));
  EXPECT_TRUE(are(combine_of(2, 128, half::receive), gpu_blocks, 0, 30));
}

TEST(exchange_role_grid, senders_of_many_units_take_what_is_next_of_all_among_more_than_two_ranks) {
  EXPECT_EQ(combine_of(4, 32).taken_each, 0);
  EXPECT_EQ(combine_of(4, 64).taken_each, 1);
  EXPECT_EQ(combine_of(4, 128).taken_each, 1);
  EXPECT_EQ(combine_of(4, 192).taken_each, 2);
  EXPECT_EQ(combine_of(2, 1024).taken_each, 0);
}

/// Of the kernels that are taken for so many ranks, by lines and by flags.
int warps_of_kernels_for(int ranks) {
  int fewest = max_pair_combine_warps;
  const auto look = [&](auto known) { fewest = smaller(fewest, combine_warps_of(known.value)); };
  with_known_ranks<by_lines, true>(ranks, look);
  with_known_ranks<by_flags, true>(ranks, look);
  return fewest;
}

TEST(exchange_role_grid, no_kernel_is_launched_with_more_warps_than_it_is_compiled_for) {
  for (int ranks = 1; ranks <= max_near_ranks; ++ranks)
    for (const int tokens : {1, 7, 31, 45, 100, 177, 512, 1024})
      for (const int blocks : {1, 8, 24, gpu_blocks})
        for (const int threads : {0, 96, 640, 768})
          for (const half which : {half::both, half::send, half::receive})
            for (const bool fp8_sums : {false, true}) {
              const role_grid g = combine_of(ranks, tokens, which, fp8_sums, threads, blocks);
              const bool has_pair_kernel = ranks == 2 && !fp8_sums && threads == 0;
              const int most = has_pair_kernel ? max_pair_combine_warps
                               : fp8_sums      ? combine_warps_of(0)
                                               : warps_of_kernels_for(ranks);
              EXPECT_LE(g.threads(), most * warp_lanes) << ranks << " ranks, " << tokens << " tokens, "
                                                        << blocks << " blocks, " << threads << " threads";
              EXPECT_GE(g.threads(), warp_lanes);
            }
}

}  // namespace
}  // namespace baton::ep::per_rank
