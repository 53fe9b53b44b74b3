#pragma once
// Filling a slot of the ring: 64 values of k of the tile's rows (a) and weight rows (b).
#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include <cstring>

#include "kernels/expert_mlp/tile.cuh"
#include "ptx/cp_async.cuh"

namespace baton::expert_mlp_kernels {

/// Weight rows. Thread t copies chunk t % 8 of slot rows t / 8 + 32 i, i = 0..3. A warp column takes 64 slot
/// rows; with gate_up these are 32 of gate, then the same 32 of up, so that one thread ends up with both.
///
///   slot rows    0-31        32-63       64-95        96-127
///   gate_up      gate c+0..  up c+0..    gate c+32..  up c+32..
///   down         c+0..       c+32..      c+64..       c+96..
template <config C>
class weight_source {
 public:
  __device__ weight_source(const params& p, const tile& t) {
    const int row = static_cast<int>(threadIdx.x) / 8, chunk = static_cast<int>(threadIdx.x) % 8;
    const std::size_t k = static_cast<std::size_t>(p.k);
    const std::size_t at = (static_cast<std::size_t>(t.expert) * p.n + t.column + row) * k + chunk * 8;
    even_ = p.weights + at;
    odd_ = C.what == step::gate_up ? p.up + at : even_ + 32 * k;
    second_half_ = (C.what == step::gate_up ? 32 : 64) * k;
    to_ = swizzled(row, chunk);
  }
  __device__ void copy(bfloat16* slot, int k) const {
    ptx::cp_async_16(slot + to_, even_ + k);
    ptx::cp_async_16(slot + to_ + 32 * block_k, odd_ + k);
    ptx::cp_async_16(slot + to_ + 64 * block_k, even_ + second_half_ + k);
    ptx::cp_async_16(slot + to_ + 96 * block_k, odd_ + second_half_ + k);
  }

 private:
  const bfloat16* even_;
  const bfloat16* odd_;
  std::size_t second_half_;
  int to_;
};

/// Token rows. Rows past the tile's end repeat its last one: they are computed and never stored.
/// start() begins a copy into a slot; finish() does what is left of it once the math in between is issued.
template <token_format Format>
class row_source;

const __device__ __forceinline__ std::uint8_t* row_at(const params& p, const tile& t, int i) {
  return static_cast<const std::uint8_t*>(p.a) + stored_row(p, t, i) * p.row_bytes;
}

template <>
class row_source<token_format::bf16> {
 public:
  __device__ row_source(const params& p, const tile& t) {
    const int row = static_cast<int>(threadIdx.x) / 8, chunk = static_cast<int>(threadIdx.x) % 8;
    for (int i = 0; i < 4; ++i)
      from_[i] = reinterpret_cast<const bfloat16*>(row_at(p, t, row + 32 * i)) + chunk * 8;
    to_ = swizzled(row, chunk);
  }
  __device__ void start(bfloat16* slot, int k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) ptx::cp_async_16(slot + to_ + 32 * i * block_k, from_[i] + k);
  }
  __device__ void finish(bfloat16*) {}

 private:
  const bfloat16* from_[4];
  int to_;
};

/// e4m3 goes through registers: every e4m3 value is a bf16 value, so the conversion is exact; the scales are
/// applied to the accumulators.
template <>
class row_source<token_format::blockwise_fp8> {
 public:
  __device__ row_source(const params& p, const tile& t) {
    row_ = static_cast<int>(threadIdx.x) / 4;
    chunk_ = static_cast<int>(threadIdx.x) % 4;
    for (int i = 0; i < 2; ++i) from_[i] = row_at(p, t, row_ + 64 * i) + chunk_ * 16;
  }
  __device__ void start(bfloat16*, int k) {
#pragma unroll
    for (int i = 0; i < 2; ++i) held_[i] = *reinterpret_cast<const uint4*>(from_[i] + k);
  }
  __device__ void finish(bfloat16* slot) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = row_ + 64 * i;
      const uint2 low = widened(held_[i].x), low_next = widened(held_[i].y);
      const uint2 high = widened(held_[i].z), high_next = widened(held_[i].w);
      *reinterpret_cast<uint4*>(slot + swizzled(row, 2 * chunk_)) = {low.x, low.y, low_next.x, low_next.y};
      *reinterpret_cast<uint4*>(slot + swizzled(row, 2 * chunk_ + 1)) = {high.x, high.y, high_next.x,
                                                                         high_next.y};
    }
  }

 private:
  /// Four e4m3, lowest byte first, as four bf16.
  __device__ static uint2 widened(std::uint32_t four) {
    return {widened_pair(static_cast<__nv_fp8x2_storage_t>(four & 0xffffu)),
            widened_pair(static_cast<__nv_fp8x2_storage_t>(four >> 16))};
  }
  __device__ static std::uint32_t widened_pair(__nv_fp8x2_storage_t two) {
    const float2 values = __half22float2(__half2{__nv_cvt_fp8x2_to_halfraw2(two, __NV_E4M3)});
    const __nv_bfloat162 pair = __floats2bfloat162_rn(values.x, values.y);
    std::uint32_t bits;
    std::memcpy(&bits, &pair, sizeof bits);
    return bits;
  }

  const std::uint8_t* from_[2];
  uint4 held_[2];
  int row_, chunk_;
};

}  // namespace baton::expert_mlp_kernels
