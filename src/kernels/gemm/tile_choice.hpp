#pragma once
// Which tiles `automatic` takes: those that end first, by what was measured on an H200.
#include "baton/gemm_config.hpp"
#include "kernels/gemm/instances.hpp"

namespace baton::gemm_kernels {

/// At 8192 x 8192 x 8192, bf16 out, and at 2048 x 2048 x 2048 (docs/results/2026-11-22-gemm).
struct tile_rate {
  gemm_tiles tiles;
  double flops_per_us;   // while every SM has one
  double us_of_a_start;  // beyond that of the others: blocks of a pair wait for each other
  bool alone = true;     // blocks may have all of k
  bool split = false;    // and may share it out
};
inline constexpr tile_rate tile_rates[] = {{gemm_tiles::paired, 817e6, 1.2},
                                           {gemm_tiles::wide, 810e6, 0},
                                           {gemm_tiles::medium, 771e6, 0},
                                           {gemm_tiles::narrow, 425e6, 0, true, true}};
inline constexpr tile_rate scaled_tile_rates[] = {{gemm_tiles::paired, 1386e6, 1.2},
                                                  {gemm_tiles::medium, 1000e6, 0, true, true},
                                                  {gemm_tiles::narrow, 700e6, 0, false, true}};

/// What a product is computed with.
struct tile_choice {
  gemm_tiles tiles;
  int splits;
};
/// What sharing out k takes beside a part's products at that rate: blocks wait for each other, and sums travel
/// (docs/decisions/0037).
constexpr double us_of_sums(gemm_tiles tiles, int splits) {
  const double of_narrow = splits == 1 ? 0 : splits == 2 ? 3 : splits == 4 ? 4 : 6;
  return tiles == gemm_tiles::narrow ? of_narrow : of_narrow * 1.75;
}
/// Clusters that run at once: those of four blocks or more leave SMs over, as not all processing clusters have as many.
constexpr int clusters_of(int blocks, int sms) {
  return larger((blocks > 2 ? sms * 10 / 11 : sms) / blocks, 1);
}

/// Microseconds, roughly: SMs take tiles in turns, and a turn takes as long with one tile as with one for each SM.
constexpr double estimated_us(const tile_rate& rate, int splits, int m, int n, int k, int sms) {
  const config c = config_of(rate.tiles, false, false);
  const tile_walk walk{m, n, block_m * c.cluster, c.columns};
  const int turns = ceil_div(walk.size(), clusters_of(c.cluster * splits, sms));
  return turns * (2.0 * block_m * c.columns * k / splits * sms / rate.flops_per_us +
                  us_of_sums(rate.tiles, splits)) +
         rate.us_of_a_start;
}

/// The quickest of `rates`, as far as `config` leaves a choice: without a number of splits they are no more than SMs.
template <int n_rates>
constexpr tile_choice chosen_of(const tile_rate (&rates)[n_rates], const gemm_config& config, int m, int n,
                                int k) {
  tile_choice best{config.tiles, larger(config.splits, 1)};
  double least = -1;
  for (const tile_rate& rate : rates) {
    if (config.tiles != gemm_tiles::automatic && config.tiles != rate.tiles) continue;
    for (int splits = 1; splits <= most_splits; splits *= 2) {
      if (config.splits != 0 && config.splits != splits) continue;
      const bool may_split = rate.split && (config.tiles == gemm_tiles::automatic || config.splits > 1);
      if (splits > 1 && !may_split) continue;
      if (splits == 1 && !rate.alone) continue;
      if (splits > 1 && config.splits == 0 && splits > config.num_sms) continue;
      const double us = estimated_us(rate, splits, m, n, k, config.num_sms);
      if (least >= 0 && us >= least) continue;
      least = us;
      best = {rate.tiles, splits};
    }
  }
  return best;
}

}  // namespace baton::gemm_kernels
