#pragma once
// The execution context of kernels whose warps work in groups: async_gpu, tensor copies and group products. What each verb
// means: exec/tensor_copy.hpp, exec/group_mma.hpp.
#include "base/convert.hpp"
#include "base/exp2.hpp"
#include "device/async_gpu.cuh"
#include "device/columns_gpu.cuh"
#include "device/lane_here.cuh"
#include "device/narrow_gpu.cuh"
#include "exec/group_mma.hpp"
#include "ptx/group.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/stmatrix.cuh"
#include "ptx/tensor_map.cuh"
#include "ptx/wgmma.cuh"

namespace baton {

template <int ClusterBlocks = 1>
class group_gpu : public async_gpu<ClusterBlocks>, public columns_gpu, public narrow_gpu {
 public:
  using columns_gpu::start_product;
  using async_gpu<ClusterBlocks>::multiply_add;
  using narrow_gpu::multiply_add;
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
  BATON_FN static void box_load(void* to, const tensor_map& map, const box_place& place, mbarrier* b) {
    cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster, cuda::ptx::space_global, to, &map, place.at,
                                    &b->opaque);
  }
  BATON_FN static void box_load_once(void* to, const tensor_map& map, const box_place& place, mbarrier* b) {
    ptx::load_tensor_box(ptx::shared_address(to), &map, place.at, ptx::shared_address(b), ptx::evict_first());
  }
  BATON_FN static void box_load_to(void* to, const tensor_map& map, const box_place& place, mbarrier* b,
                                   std::uint32_t blocks) {
    cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster, cuda::ptx::space_global, to, &map, place.at,
                                    &b->opaque, static_cast<std::uint16_t>(blocks));
  }
  BATON_FN static void box_store(const tensor_map& map, const box_place& place, const void* from) {
    cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_global, cuda::ptx::space_shared, &map, place.at, from);
  }
  BATON_FN static void ask_for_box(const tensor_map& map, const box_place& place) {
    ptx::prefetch_tensor_box(&map, place.at);
  }
  BATON_FN static void prefetch(const tensor_map& map) { ptx::prefetch_tensor_map(&map); }

  /// From a broadcast, so that the compiler knows it uniform and branches on it as one.
  BATON_FN static int group() {
    return __shfl_sync(whole_warp, static_cast<int>(threadIdx.x) / group_threads, 0);
  }
  BATON_FN static int warp_of_group() { return static_cast<int>(threadIdx.x) / warp_lanes % group_warps; }

  /// How far its shared memory lies from this block's, in addresses of the cluster.
  struct reached_block {
    std::uint32_t distance;
  };
  BATON_FN static reached_block reach(int block) {
    const std::uint32_t here = ptx::shared_address(gpu_shared_memory);
    return {ptx::mapa(here, static_cast<std::uint32_t>(block)) - here};
  }
  template <class T>
  BATON_FN static void store_counted(reached_block there, T* to, const std::type_identity_t<T>& value,
                                     mbarrier* b) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16);
    const std::uint32_t at = ptx::shared_address(to) + there.distance;
    const std::uint32_t counter = ptx::shared_address(b) + there.distance;
    if constexpr (sizeof(T) == 4)
      ptx::st_async(at, std::bit_cast<std::uint32_t>(value), counter);
    else if constexpr (sizeof(T) == 8)
      ptx::st_async(at, std::bit_cast<std::uint64_t>(value), counter);
    else
      ptx::st_async(at, value.word, counter);
  }

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
  template <class T>
  BATON_FN static prepared_tile<T> prepare_anew(const swizzled_tile<T>& tile) {
    std::uint32_t made = descriptor(tile.at);
    asm volatile("" : "+r"(made));
    return {made};
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
    start<T, true>(acc, descriptor(a.at), b_descriptor(b), add);
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
  template <class F>
  BATON_FN static row_values combined(const row_values& a, const row_values& b, F f) {
    return {{f(a.at[0], b.at[0]), f(a.at[1], b.at[1])}};
  }
  template <class F>
  BATON_FN static bool any_row(const row_values& values, F f) {
    return __any_sync(whole_warp, f(values.at[0]) || f(values.at[1])) != 0;
  }
  template <int columns>
  BATON_FN static row_values largest_values(const group_accumulators<columns>& acc) {
    row_values most{{acc.at[0], acc.at[2]}};
    BATON_UNROLL
    for (int i = 0; i < columns / 2; ++i) most.at[i / 2 % 2] = fmaxf(most.at[i / 2 % 2], acc.at[i]);
    BATON_UNROLL
    for (int mask = 1; mask < 4; mask *= 2)
      for (float& v : most.at) v = fmaxf(v, __shfl_xor_sync(whole_warp, v, mask));
    return most;
  }
  /// Of a row each lane has the sum of what it holds.
  struct row_sums {
    float at[2];
  };
  BATON_FN static void scale_sums(row_sums& sums, const row_values& by) {
    for (int i = 0; i < 2; ++i) sums.at[i] *= by.at[i];
  }
  BATON_FN static row_values total(const row_sums& sums) {
    row_values all{{sums.at[0], sums.at[1]}};
    BATON_UNROLL
    for (int mask = 1; mask < 4; mask *= 2)
      for (float& v : all.at) v += __shfl_xor_sync(whole_warp, v, mask);
    return all;
  }
  template <int first, int taken, int columns>
  BATON_FN static void exponentials(group_accumulators<columns>& acc, float scale, const row_values& low,
                                    row_sums& sums) {
    BATON_UNROLL
    for (int i = first / 2; i < (first + taken) / 2; ++i) {
      acc.at[i] = exp2_quickly(__fmaf_rn(acc.at[i], scale, -low.at[i / 2 % 2]));
      sums.at[i / 2 % 2] += acc.at[i];
    }
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
  /// B is a tile, or rows of k.
  template <int columns, int k, class T, class B>
  BATON_FN static void start_product(group_accumulators<columns>& acc, const group_results<k, T>& a,
                                     const B& b, bool add) {
    constexpr bool by_rows = !std::is_same_v<B, swizzled_tile<T>>;
    static_assert(by_rows || k == swizzled_tile<T>::columns);
    const std::uint32_t right = b_descriptor(b);
    ptx::wgmma_fence();
    BATON_UNROLL
    for (int i = 0; i < k / 16; ++i) {
      const std::uint32_t left[4] = {a.at[4 * i], a.at[4 * i + 1], a.at[4 * i + 2], a.at[4 * i + 3]};
      multiply<T, by_rows>(acc, left, form << 32 | (right + i * b_step<by_rows>), i > 0 || add);
    }
    ptx::wgmma_commit();
  }
  template <int columns, class T, int k>
  BATON_FN static void start_product(group_accumulators<columns>& acc, const tile_columns<T, k>& a,
                                     const rows_of_k<T, k>& b, bool add) {
    const std::uint32_t left = descriptor(a.tile.at) + static_cast<std::uint32_t>(a.first) / 16 * step_units;
    const std::uint32_t right = b_descriptor(b);
    ptx::wgmma_fence();
    BATON_UNROLL
    for (int i = 0; i < k / 16; ++i)
      multiply<T, true>(acc, form << 32 | (left + i * step_units), form << 32 | (right + i * b_step<true>),
                        i > 0 || add);
    ptx::wgmma_commit();
  }
  /// Four lanes have a row, and of each 16 bytes of it a word: they are turned among them.
  template <class T, class F>
  BATON_FN static void each_chunk(const group_results<32, T>& results, F f) {
    const int lane = lane_here();
    BATON_UNROLL
    for (int h = 0; h < 2; ++h) {
      vec16 words{{results.at[h], results.at[2 + h], results.at[4 + h], results.at[6 + h]}};
      turn(words.word, lane % 4);
      f(lane / 4 + 8 * h, lane % 4, words);
    }
  }
  template <class T, class F>
  BATON_FN static void each_turned_chunk(const group_results<32, T>& results, F f) {
    const int lane = lane_here();
    BATON_UNROLL
    for (int h = 0; h < 2; ++h)
      f(lane / 4 + 8 * h, lane % 4,
        vec16{{results.at[h], results.at[2 + h], results.at[4 + h], results.at[6 + h]}});
  }
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
  template <class T>
  BATON_FN static void take_rows(const swizzled_tile<T>& tile,
                                 group_results<swizzled_tile<T>::columns, T>& results) {
    const int lane = lane_here();
    BATON_UNROLL
    for (int j = 0; j < 4; ++j) {
      std::uint32_t words[4];
      ptx::ldmatrix_x4(words, ptx::shared_address(tile.chunk(lane % 16, 2 * j + lane / 16)));
      BATON_UNROLL
      for (int i = 0; i < 4; ++i) results.at[4 * j + i] = words[i];
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
    const int lane = lane_here(), row = lane / 4;
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
  /// Word i of lane j of four neighbours becomes word j of lane i.
  BATON_FN static void turn(std::uint32_t (&word)[4], int lane_of_four) {
    BATON_UNROLL
    for (int i = 0; i < 4; i += 2) {
      const bool odd = (lane_of_four & 1) != 0;
      const std::uint32_t got = __shfl_xor_sync(whole_warp, odd ? word[i] : word[i + 1], 1);
      word[i] = odd ? got : word[i], word[i + 1] = odd ? word[i + 1] : got;
    }
    BATON_UNROLL
    for (int i = 0; i < 2; ++i) {
      const bool high = (lane_of_four & 2) != 0;
      const std::uint32_t got = __shfl_xor_sync(whole_warp, high ? word[i] : word[i + 2], 2);
      word[i] = high ? got : word[i], word[i + 2] = high ? word[i + 2] : got;
    }
  }
  template <class T, bool b_is_rows_of_k, int columns>
  BATON_FN static void start(group_accumulators<columns>& acc, std::uint32_t a, std::uint32_t b, bool add) {
    ptx::wgmma_fence();
    BATON_UNROLL
    for (int i = 0; i < 4; ++i) {
      const std::uint64_t left = form << 32 | (a + i * step_units),
                          right = form << 32 | (b + i * b_step<b_is_rows_of_k>);
      if constexpr (std::is_same_v<T, float8_e4m3>)
        ptx::wgmma_e4m3(acc.at, left, right, i > 0 || add);
      else
        multiply<T, b_is_rows_of_k>(acc, left, right, i > 0 || add);
    }
    ptx::wgmma_commit();
  }
  /// `A` is a descriptor or four registers.
  template <class T, bool b_is_rows_of_k, int columns, class A>
  BATON_FN static void multiply(group_accumulators<columns>& acc, const A& a, std::uint64_t b, bool add) {
    if constexpr (std::is_same_v<T, bfloat16>)
      ptx::wgmma_bf16<b_is_rows_of_k>(acc.at, a, b, add);
    else
      ptx::wgmma_fp16<b_is_rows_of_k>(acc.at, a, b, add);
  }
  /// A product takes 32 bytes of a row, or 16 rows of k; in units of descriptors.
  static constexpr std::uint32_t step_units = 2;
  template <bool b_is_rows_of_k>
  static constexpr std::uint32_t b_step = b_is_rows_of_k ? 16 * operand_tile::row_bytes / 16 : step_units;
  /// A matrix descriptor: the start, 8 rows are 1024 bytes, swizzle of 128 bytes; units of 16 bytes.
  static constexpr std::uint64_t form = 1024 / 16 | 1u << 30;
  /// Of rows that hold k the second field says nothing where they are swizzled.
  BATON_FN static std::uint32_t descriptor(const std::byte* tile) {
    return ptx::shared_address(tile) >> 4 | 1u << 16;
  }
  /// The same where rows are values of k: the next 64 columns are a tile of k rows further on. That field is looked at here, and
  /// in a cluster addresses have the block's number above the 18 bits of its memory.
  template <int k>
  BATON_FN static std::uint32_t rows_of_k_descriptor(const std::byte* tile) {
    constexpr std::uint32_t tile_units = k * operand_tile::row_bytes / 16;
    constexpr std::uint32_t address_bits = (1u << 18) - 1;
    return (ptx::shared_address(tile) & address_bits) >> 4 | tile_units << 16;
  }
  template <class T>
  BATON_FN static std::uint32_t b_descriptor(const swizzled_tile<T>& b) {
    return descriptor(b.at);
  }
  template <class T, int k>
  BATON_FN static std::uint32_t b_descriptor(const rows_of_k<T, k>& b) {
    return rows_of_k_descriptor<k>(b.first.at);
  }
};
static_assert(group_exec_context<group_gpu<1>> && group_exec_context<group_gpu<2>>);
static_assert(narrow_exec_context<group_gpu<1>>);

}  // namespace baton
