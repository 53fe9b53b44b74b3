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
};
inline constexpr tile_rate tile_rates[] = {{gemm_tiles::paired, 817e6, 1.2},
                                           {gemm_tiles::wide, 810e6, 0},
                                           {gemm_tiles::medium, 771e6, 0},
                                           {gemm_tiles::narrow, 425e6, 0}};
inline constexpr tile_rate scaled_tile_rates[] = {{gemm_tiles::paired, 1386e6, 1.2},
                                                  {gemm_tiles::medium, 1000e6, 0}};

/// Microseconds, roughly: SMs take tiles in turns, and a turn takes as long with one tile as with one for each SM.
constexpr double estimated_us(const tile_rate& rate, int m, int n, int k, int sms) {
  const config c = config_of(rate.tiles, false, false);
  const tile_walk walk{m, n, block_m * c.cluster, c.columns};
  const int turns = ceil_div(walk.size(), larger(sms / c.cluster, 1));
  return turns * 2.0 * block_m * c.columns * k * sms / rate.flops_per_us + rate.us_of_a_start;
}

/// Of `rates`.
template <int n_rates>
constexpr gemm_tiles quickest_of(const tile_rate (&rates)[n_rates], int m, int n, int k, int sms) {
  const tile_rate* best = &rates[0];
  for (const tile_rate& rate : rates)
    if (estimated_us(rate, m, n, k, sms) < estimated_us(*best, m, n, k, sms)) best = &rate;
  return best->tiles;
}
constexpr gemm_tiles tiles_for(int m, int n, int k, int sms) {
  return quickest_of(tile_rates, m, n, k, sms);
}
/// Of e4m3 with scales.
constexpr gemm_tiles scaled_tiles_for(int m, int n, int k, int sms) {
  return quickest_of(scaled_tile_rates, m, n, k, sms);
}

}  // namespace baton::gemm_kernels
