#pragma once
// The context of a GPU whose kernels reach ranks beyond the p2p group through NVSHMEM (exec/far.hpp). A rank is the processing
// element of its number; addresses are those of this rank's memory, which is at the same place of the symmetric heap.
//
//   verb            NVSHMEM                   between GPUs that reach each other's memory
//   put             nvshmemx_putmem_nbi_warp  stores of the warp, of our own: several loads of a lane are on their way at a time,
//                                             where NVSHMEM's loop has one, so that 14 KB take 28 turns of the memory's latency
//   fence_puts      nvshmem_fence             nothing; the fence at system scope before it orders stores, of other warps too, as
//                                             they were counted before it (completion.hpp)
//   signal          nvshmemx_signal_op, SET   one volatile store of 64 bits, as relaxed at system scope
//   put_and_signal  nvshmemx_putmem_signal_nbi_warp, SET
//                                             the stores of all puts; then each lane of one that was stored fences and stores its
//                                             word, so that they wait together. Over InfiniBand (IBGDA, 3.4.5) put and word are
//                                             requests of one queue pair, which serves them in order; through the proxy NVSHMEM
//                                             asks it for a fence between the two, for which no thread of the GPU waits
#include <nvshmem.h>
#include <nvshmemx.h>

#include "base/bits.hpp"
#include "device/async_gpu.cuh"
#include "exec/far.hpp"

namespace baton {

/// A lane's share of a copy of vec16s. A function of its own: in kernels that have few registers left, what it holds would push
/// out what lives on, which NVSHMEM's calls do not leave there either. Each file has its own, of as many registers as its
/// kernels have.
[[maybe_unused]] static __device__ __noinline__ void copy_by_warp(uint4* to, const uint4* from, int count) {
  constexpr int ahead = 8;
  for (int first = static_cast<int>(threadIdx.x) % warp_lanes; first < count; first += ahead * warp_lanes) {
    uint4 held[ahead];
    BATON_UNROLL
    for (int i = 0; i < ahead; ++i)
      if (const int at = first + i * warp_lanes; at < count) held[i] = from[at];
    BATON_UNROLL
    for (int i = 0; i < ahead; ++i)
      if (const int at = first + i * warp_lanes; at < count) to[at] = held[i];
  }
}

/// Whether stores reach the rank: then they have been made, and the word has not; else the put is on its way, and its word behind
/// it. A function of its own for the same reason.
[[maybe_unused]] static __device__ __noinline__ bool store_or_put(int rank, std::byte* to,
                                                                  const std::byte* from, int bytes,
                                                                  std::uint64_t* word, std::uint64_t value) {
  void* const there = nvshmem_ptr(to, rank);
  if (there == nullptr)
    nvshmemx_putmem_signal_nbi_warp(to, from, static_cast<std::size_t>(bytes), word, value,
                                    NVSHMEM_SIGNAL_SET, rank);
  else
    copy_by_warp(static_cast<uint4*>(there), reinterpret_cast<const uint4*>(from),
                 bytes / static_cast<int>(sizeof(uint4)));
  return there != nullptr;
}

class nvshmem_gpu : public async_gpu<1> {
 public:
  using async_gpu<1>::async_gpu;

  /// `bytes` of whole vec16s, which lie as such.
  BATON_FN void put(int rank, std::byte* to, const std::byte* from, int bytes) const {
    void* const there = nvshmem_ptr(to, rank);
    if (there == nullptr) return nvshmemx_putmem_nbi_warp(to, from, static_cast<std::size_t>(bytes), rank);
    copy_by_warp(static_cast<uint4*>(there), reinterpret_cast<const uint4*>(from),
                 bytes / static_cast<int>(sizeof(uint4)));
    __syncwarp();
  }
  BATON_FN void fence_puts() const {
    fence<order::acq_rel, scope::system>();
    nvshmem_fence();
  }
  BATON_FN void signal(int rank, std::uint64_t* word, std::uint64_t value) const {
    nvshmemx_signal_op(word, value, NVSHMEM_SIGNAL_SET, rank);
  }
  template <class Of>
  BATON_FN void put_and_signal(std::uint32_t lanes, Of of) const {
    std::uint32_t stored = 0;
    for (std::uint32_t left = lanes; left != 0; left &= left - 1) {
      const signalled_put one = of(lowest_bit(left));
      if (store_or_put(one.word.rank, one.to, one.from, one.bytes, one.word.at, one.word.value))
        stored |= left & (0u - left);
    }
    if (stored == 0) return;
    __syncwarp();
    const bool tells = (stored >> lane() & 1) != 0;
    const far_word word = of(tells ? lane() : lowest_bit(stored)).word;
    if (tells) {
      fence<order::acq_rel, scope::system>();
      store<order::relaxed, scope::system>(static_cast<std::uint64_t*>(nvshmem_ptr(word.at, word.rank)),
                                           word.value);
    }
    __syncwarp();
  }
};

}  // namespace baton
