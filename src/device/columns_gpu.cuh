#pragma once
// Verbs of columns of group_gpu: products of few columns, and what is worked out column by column. What each verb means:
// exec/group_mma.hpp.
#include "base/exp2.hpp"
#include "device/gpu.cuh"
#include "device/lane_here.cuh"
#include "exec/group_mma.hpp"
#include "ptx/wgmma.cuh"

namespace baton {

class columns_gpu {
 public:
  /// Of columns 8 j + 2 (lane % 4) and the next, at [2 j] and behind it.
  template <int columns>
  struct column_values {
    float at[columns / 4];
  };
  template <int columns, class F>
  BATON_FN static column_values<columns> of_columns(F f) {
    const int first = lane_here() % 4 * 2;
    column_values<columns> values;
    BATON_UNROLL
    for (int i = 0; i < columns / 4; ++i) values.at[i] = f(i / 2 * 8 + first + i % 2);
    return values;
  }
  /// Eight lanes have the same columns.
  template <int columns, class F>
  BATON_FN static void each_column(const column_values<columns>& values, F f) {
    const int here = lane_here();
    if (here >= 4) return;
    BATON_UNROLL
    for (int i = 0; i < columns / 4; ++i) f(i / 2 * 8 + here * 2 + i % 2, values.at[i]);
  }
  template <int columns, class F>
  BATON_FN static column_values<columns> combined_columns(const column_values<columns>& a,
                                                          const column_values<columns>& b, F f) {
    column_values<columns> values;
    BATON_UNROLL
    for (int i = 0; i < columns / 4; ++i) values.at[i] = f(a.at[i], b.at[i]);
    return values;
  }
  template <int columns, class F>
  BATON_FN static bool any_column(const column_values<columns>& values, F f) {
    bool any = false;
    BATON_UNROLL
    for (const float v : values.at) any = any || f(v);
    return __any_sync(whole_warp, any) != 0;
  }
  template <class Accumulators, int columns = static_cast<int>(sizeof(Accumulators::at) / sizeof(float)) * 2>
  BATON_FN static column_values<columns> largest_of_columns(const Accumulators& acc) {
    column_values<columns> most;
    BATON_UNROLL
    for (int i = 0; i < columns / 4; ++i) {
      most.at[i] = fmaxf(acc.at[i / 2 * 4 + i % 2], acc.at[i / 2 * 4 + i % 2 + 2]);
      BATON_UNROLL
      for (int mask = 4; mask < 32; mask *= 2)
        most.at[i] = fmaxf(most.at[i], __shfl_xor_sync(whole_warp, most.at[i], mask));
    }
    return most;
  }
  template <int columns>
  BATON_FN static column_values<columns> total_of_columns(column_values<columns> sums) {
    BATON_UNROLL
    for (float& v : sums.at) {
      BATON_UNROLL
      for (int mask = 4; mask < 32; mask *= 2) v += __shfl_xor_sync(whole_warp, v, mask);
    }
    return sums;
  }
  template <class Accumulators, int columns>
  BATON_FN static void scale_columns(Accumulators& acc, const column_values<columns>& by) {
    BATON_UNROLL
    for (int i = 0; i < columns / 2; ++i) acc.at[i] *= by.at[i / 4 * 2 + i % 2];
  }
  template <class Accumulators, int columns>
  BATON_FN static void exponentials_of_columns(Accumulators& acc, float scale,
                                               const column_values<columns>& low,
                                               column_values<columns>& sums) {
    BATON_UNROLL
    for (int i = 0; i < columns / 2; ++i) {
      acc.at[i] = exp2_quickly(__fmaf_rn(acc.at[i], scale, -low.at[i / 4 * 2 + i % 2]));
      sums.at[i / 4 * 2 + i % 2] += acc.at[i];
    }
  }

  template <class Accumulators, class T, int step>
  BATON_FN static void start_product(Accumulators& acc, const spread_tile<T, step>& a,
                                     const swizzled_tile<T>& b, bool add) {
    const std::uint32_t left = place(a.at), right = place(b.at);
    ptx::wgmma_fence();
    BATON_UNROLL
    for (int i = 0; i < 4; ++i)
      multiply<T, false>(acc.at, spread<step> | (left + 2 * i), spread<1024> | (right + 2 * i), i > 0 || add);
    ptx::wgmma_commit();
  }
  template <class Accumulators, int n, class T, int step>
  BATON_FN static void start_products(Accumulators (&acc)[n], const turned_tiles<T, step>& a,
                                      const tile_columns<T, 16>& b, bool add) {
    const std::uint32_t left = place(a.at),
                        right = place(b.tile.at) + static_cast<std::uint32_t>(b.first) / 8;
    ptx::wgmma_fence();
    BATON_UNROLL
    for (int i = 0; i < n; ++i)
      multiply<T, true>(acc[i].at, spread<step> | (left + 64 * i), spread<1024> | right, add);
    ptx::wgmma_commit();
  }
  template <int newest, class Accumulators, int n>
  BATON_FN static void await_all_products(Accumulators (&acc)[n]) {
    ptx::wgmma_wait<newest>();
    BATON_UNROLL
    for (Accumulators& one : acc) pin(one.at);
  }

 protected:
  /// Through an empty statement, so that nothing that reads them moves in front of it.
  template <int n>
  BATON_FN static void pin(float (&at)[n]) {
    BATON_UNROLL
    for (int i = 0; i < n; ++i) asm volatile("" : "+f"(at[i])::"memory");
  }

 private:
  /// The upper half of a matrix descriptor: eight rows begin `step` bytes behind the eight before them; swizzle of 128 bytes.
  template <int step>
  static constexpr std::uint64_t spread = (std::uint64_t{step} / 16 | 1u << 30) << 32;
  /// The lower half: the block's own address, without its number in the cluster.
  BATON_FN static std::uint32_t place(const std::byte* at) {
    return (ptx::shared_address(at) & ((1u << 18) - 1)) >> 4 | 1u << 16;
  }
  template <class T, bool a_transposed, int n>
  BATON_FN static void multiply(float (&acc)[n], std::uint64_t a, std::uint64_t b, bool add) {
    if constexpr (std::is_same_v<T, bfloat16>)
      ptx::wgmma_narrow_bf16<a_transposed>(acc, a, b, add);
    else
      ptx::wgmma_narrow_fp16<a_transposed>(acc, a, b, add);
  }
};

}  // namespace baton
