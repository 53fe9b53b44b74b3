#pragma once
// The execution context of kernels whose warps work in groups: async_gpu, tensor copies and group products. What each verb
// means: exec/tensor_copy.hpp, exec/group_mma.hpp.
#include "base/convert.hpp"
#include "device/async_gpu.cuh"
#include "exec/group_mma.hpp"
#include "ptx/group.cuh"
#include "ptx/stmatrix.cuh"
#include "ptx/tensor_map.cuh"
#include "ptx/wgmma.cuh"

namespace baton {

template <int ClusterBlocks = 1>
class group_gpu : public async_gpu<ClusterBlocks> {
 public:
  using async_gpu<ClusterBlocks>::async_gpu;

  /// The lane that elect.sync chooses, always the same one: the compiler then knows that it is alone, and issues copies
  /// without a loop over lanes.
  template <class F>
  BATON_FN static void elect(F f) {
    if (ptx::elect_one()) f();
  }

  BATON_FN static void tensor_load(void* to, const tensor_map& map, box_origin box, mbarrier* b) {
    const std::int32_t at[2] = {box.column, box.row};
    cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster, cuda::ptx::space_global, to, &map, at,
                                    &b->opaque);
  }
  BATON_FN static void tensor_load_to(void* to, const tensor_map& map, box_origin box, mbarrier* b,
                                      std::uint32_t blocks) {
    const std::int32_t at[2] = {box.column, box.row};
    cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster, cuda::ptx::space_global, to, &map, at,
                                    &b->opaque, static_cast<std::uint16_t>(blocks));
  }
  BATON_FN static void tensor_store(const tensor_map& map, box_origin box, const void* from) {
    const std::int32_t at[2] = {box.column, box.row};
    cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_global, cuda::ptx::space_shared, &map, at, from);
  }
  BATON_FN static void prefetch(const tensor_map& map) { ptx::prefetch_tensor_map(&map); }

  /// From a broadcast, so that the compiler knows it uniform and branches on it as one.
  BATON_FN static int group() {
    return __shfl_sync(whole_warp, static_cast<int>(threadIdx.x) / group_threads, 0);
  }
  BATON_FN static int warp_of_group() { return static_cast<int>(threadIdx.x) / warp_lanes % group_warps; }

  /// at[4 j + i]: wgmma's four of columns 8 j to 8 j + 7.
  template <int columns>
  struct group_accumulators {
    float at[columns / 2];
  };

  /// The lower half of a matrix descriptor, from a broadcast, so that the compiler knows it uniform.
  template <class T>
  struct prepared_tile {
    std::uint32_t descriptor;
    BATON_FN prepared_tile from_row(int rows) const {
      return {descriptor + static_cast<std::uint32_t>(rows * swizzled_tile<T>::row_bytes / 16)};
    }
  };
  template <class T>
  BATON_FN static prepared_tile<T> prepare(const swizzled_tile<T>& tile) {
    return {__shfl_sync(whole_warp, descriptor(tile.at), 0)};
  }
  template <int columns, class T>
  BATON_FN static void start_product(group_accumulators<columns>& acc, const swizzled_tile<T>& a,
                                     const swizzled_tile<T>& b, bool add) {
    start_product(acc, prepared_tile<T>{descriptor(a.at)}, prepared_tile<T>{descriptor(b.at)}, add);
  }
  template <int columns, class T>
  BATON_FN static void start_product(group_accumulators<columns>& acc, prepared_tile<T> a, prepared_tile<T> b,
                                     bool add) {
    start<T, false>(acc, a.descriptor, b.descriptor, add);
  }
  template <int columns, class T>
  BATON_FN static void start_product(group_accumulators<columns>& acc, const swizzled_tile<T>& a,
                                     const rows_of_k<T>& b, bool add) {
    start<T, true>(acc, descriptor(a.at), rows_of_k_descriptor(b.first.at), add);
  }
  /// The accumulators pass through an empty statement, so that nothing that reads them moves in front of the wait.
  template <int newest, class... Accumulators>
  BATON_FN static void await_products(Accumulators&... acc) {
    ptx::wgmma_wait<newest>();
    (pin(acc.at), ...);
  }

  template <int columns>
  BATON_FN static void clear(group_accumulators<columns>& acc) {
    BATON_UNROLL
    for (float& v : acc.at) v = 0.0f;
  }
  template <int columns, class F>
  BATON_FN static void each_pair(group_accumulators<columns>& acc, F f) {
    const int lane = lane_here();
    BATON_UNROLL
    for (int i = 0; i < columns / 4; ++i)
      f(lane / 4 + i % 2 * 8, i / 2 * 8 + lane % 4 * 2, acc.at[2 * i], acc.at[2 * i + 1]);
  }
  /// Of rows lane / 4 and that + 8.
  struct row_values {
    float at[2];
  };
  BATON_FN static void read_rows(row_values& values, const float* from) {
    const int row = gpu::lane() / 4;
    values = {{from[row], from[row + 8]}};
  }
  template <class F>
  BATON_FN static row_values of_rows(F f) {
    const int row = lane_here() / 4;
    return {{f(row), f(row + 8)}};
  }
  template <class F>
  BATON_FN static row_values mapped(const row_values& values, F f) {
    return {{f(values.at[0]), f(values.at[1])}};
  }
  /// Four lanes have the same rows.
  template <class F>
  BATON_FN static void each_row(const row_values& values, F f) {
    const int lane = gpu::lane();
    if (lane % 4 != 0) return;
    f(lane / 4, values.at[0]);
    f(lane / 4 + 8, values.at[1]);
  }
  template <int columns>
  BATON_FN static row_values largest_of_rows(const group_accumulators<columns>& acc, int taken) {
    row_values most{};
    BATON_UNROLL
    for (int j = 0; j < columns / 16; ++j) {
      if (j * 8 >= taken) continue;
      BATON_UNROLL
      for (int i = 0; i < 4; ++i) most.at[i / 2] = fmaxf(most.at[i / 2], fabsf(acc.at[4 * j + i]));
    }
    BATON_UNROLL
    for (int mask = 1; mask < 4; mask *= 2)
      for (float& v : most.at) v = fmaxf(v, __shfl_xor_sync(whole_warp, v, mask));
    return most;
  }
  template <int columns, class F>
  BATON_FN static void fold_halves(group_accumulators<columns>& acc, F f) {
    BATON_UNROLL
    for (int i = 0; i < columns / 4; ++i) acc.at[i] = f(acc.at[i], acc.at[i + columns / 4]);
  }
  template <int columns>
  BATON_FN static void scale_rows(group_accumulators<columns>& acc, const row_values& by) {
    BATON_UNROLL
    for (int i = 0; i < columns / 2; ++i) acc.at[i] *= by.at[i / 2 % 2];
  }
  template <int columns, int taken>
  BATON_FN static void add_scaled(group_accumulators<columns>& acc, int first,
                                  const group_accumulators<taken>& part, const row_values& scales) {
    BATON_UNROLL
    for (int i = 0; i < taken / 2; ++i) {
      float& v = acc.at[first / 2 + i];
      v = __fmaf_rn(part.at[i], scales.at[i / 2 % 2], v);
    }
  }

  /// at[i]: two neighbours, in the order of the accumulators.
  template <int columns, class T>
  struct group_results {
    std::uint32_t at[columns / 4];
  };
  template <int columns, int taken, class T>
  BATON_FN static void round(const group_accumulators<columns>& acc, int first,
                             group_results<taken, T>& results) {
    BATON_UNROLL
    for (int i = 0; i < taken / 4; ++i)
      results.at[i] = pack_two<T>(acc.at[first / 2 + 2 * i], acc.at[first / 2 + 2 * i + 1]);
  }
  template <int columns, class T>
  BATON_FN static void put_rows(const swizzled_tile<T>& tile, const group_results<columns, T>& results,
                                int first) {
    const int lane = gpu::lane();
    BATON_UNROLL
    for (int j = 0; j < 4; ++j) {
      const std::uint32_t* v = &results.at[first / 4 + j * 4];
      const std::uint32_t words[4] = {v[0], v[1], v[2], v[3]};
      ptx::stmatrix_x4(ptx::shared_address(tile.chunk(lane % 16, 2 * j + lane / 16)), words);
    }
  }
  template <int columns, class T>
  BATON_FN static void put_rows(const swizzled_tile<T>& tile, const group_accumulators<columns>& acc,
                                int first) {
    group_results<swizzled_tile<T>::columns, T> results;
    round(acc, first, results);
    put_rows(tile, results, 0);
  }
  template <int columns>
  BATON_FN static void put_rows(const swizzled_tile<float>& tile, const group_accumulators<columns>& acc,
                                int first) {
    const int lane = gpu::lane(), row = lane / 4;
    BATON_UNROLL
    for (int j = 0; j < 4; ++j) {
      const float* v = &acc.at[first / 2 + j * 4];
      const int chunk = 2 * j + lane % 4 / 2;
      reinterpret_cast<float2*>(tile.chunk(row, chunk))[lane % 2] = make_float2(v[0], v[1]);
      reinterpret_cast<float2*>(tile.chunk(row + 8, chunk))[lane % 2] = make_float2(v[2], v[3]);
    }
  }

  template <int columns>
  BATON_FN static void put_rows(const swizzled_tile<float8_e4m3>& tile,
                                const group_accumulators<columns>& acc, int first, const row_values& by) {
    const int lane = gpu::lane();
    int row = lane / 4;
    asm volatile(""
                 : "+r"(row));  // addresses are worked out here, and not kept in registers while products run
    BATON_UNROLL
    for (int j = 0; j < operand_tile_e4m3::columns / 8; ++j) {
      const float* v = &acc.at[first / 2 + j * 4];
      std::uint16_t* to = reinterpret_cast<std::uint16_t*>(tile.chunk(row, j / 2)) + j % 2 * 4 + lane % 4;
      to[0] = pack_e4m3(v[0] * by.at[0], v[1] * by.at[0]);
      to[8 * operand_tile_e4m3::row_bytes / 2] = pack_e4m3(v[2] * by.at[1], v[3] * by.at[1]);
    }
  }

  template <int registers>
  BATON_FN static void leave_registers() {
    ptx::setmaxnreg_dec<registers>();
  }
  template <int registers>
  BATON_FN static void take_registers() {
    ptx::setmaxnreg_inc<registers>();
  }
  BATON_FN static void sync_groups(int id, int groups) { ptx::barrier_sync(id, groups * group_threads); }

 private:
  /// What is worked out of it is worked out where it is used, and not kept in registers while products run.
  BATON_FN static int lane_here() {
    int lane = gpu::lane();
    asm volatile("" : "+r"(lane));
    return lane;
  }
  template <class T, bool b_is_rows_of_k, int columns>
  BATON_FN static void start(group_accumulators<columns>& acc, std::uint32_t a, std::uint32_t b, bool add) {
    constexpr std::uint32_t step_units = 2;  // a product takes 32 bytes of a row, or 16 rows of k
    constexpr std::uint32_t b_units = b_is_rows_of_k ? 16 * swizzled_tile<T>::row_bytes / 16 : step_units;
    ptx::wgmma_fence();
    BATON_UNROLL
    for (int i = 0; i < 4; ++i) {
      const std::uint64_t left = form << 32 | (a + i * step_units), right = form << 32 | (b + i * b_units);
      if constexpr (std::is_same_v<T, bfloat16>)
        ptx::wgmma_bf16<b_is_rows_of_k>(acc.at, left, right, i > 0 || add);
      else if constexpr (std::is_same_v<T, float16>)
        ptx::wgmma_fp16<b_is_rows_of_k>(acc.at, left, right, i > 0 || add);
      else
        ptx::wgmma_e4m3(acc.at, left, right, i > 0 || add);
    }
    ptx::wgmma_commit();
  }
  /// A matrix descriptor: the start, 8 rows are 1024 bytes, swizzle of 128 bytes; units of 16 bytes.
  static constexpr std::uint64_t form = 1024 / 16 | 1u << 30;
  /// Of rows that hold k the second field says nothing where they are swizzled.
  BATON_FN static std::uint32_t descriptor(const std::byte* tile) {
    return ptx::shared_address(tile) >> 4 | 1u << 16;
  }
  /// The same where rows are values of k: the next 64 columns are a tile of 64 rows further on. That field is looked at here, and
  /// in a cluster addresses have the block's number above the 18 bits of its memory.
  BATON_FN static std::uint32_t rows_of_k_descriptor(const std::byte* tile) {
    constexpr std::uint32_t tile_units = rows_of_k<bfloat16>::k * operand_tile::row_bytes / 16;
    constexpr std::uint32_t address_bits = (1u << 18) - 1;
    return (ptx::shared_address(tile) & address_bits) >> 4 | tile_units << 16;
  }
  template <int n>
  BATON_FN static void pin(float (&at)[n]) {
    BATON_UNROLL
    for (float& v : at) asm volatile("" : "+f"(v)::"memory");
  }
};
static_assert(group_exec_context<group_gpu<1>> && group_exec_context<group_gpu<2>>);

}  // namespace baton
