#pragma once
// The context of a GPU whose kernels reach ranks beyond the p2p group through NVSHMEM (exec/far.hpp). A rank is the processing
// element of its number; addresses are those of this rank's memory, which is at the same place of the symmetric heap.
//
//   verb         NVSHMEM                     between GPUs that reach each other's memory
//   put          nvshmemx_putmem_nbi_warp    stores of the warp, of our own: several loads of a lane are on their way at a time,
//                                            where NVSHMEM's loop has one, so that 14 KB take 28 turns of the memory's latency
//   fence_puts   nvshmem_fence               nothing; the fence at system scope before it orders stores, of other warps too, as
//                                            they were counted before it (completion.hpp)
//   signal       nvshmemx_signal_op, SET     one volatile store of 64 bits, as relaxed at system scope
#include <nvshmem.h>
#include <nvshmemx.h>

#include "device/async_gpu.cuh"
#include "exec/far.hpp"

namespace baton {

class nvshmem_gpu : public async_gpu<1> {
 public:
  using async_gpu<1>::async_gpu;

  /// `bytes` of whole vec16s, which lie as such.
  BATON_FN void put(int rank, std::byte* to, const std::byte* from, int bytes) const {
    void* const there = nvshmem_ptr(to, rank);
    if (there == nullptr) return nvshmemx_putmem_nbi_warp(to, from, static_cast<std::size_t>(bytes), rank);
    copy(static_cast<vec16*>(there), reinterpret_cast<const vec16*>(from),
         bytes / static_cast<int>(sizeof(vec16)));
    __syncwarp();
  }
  BATON_FN void fence_puts() const {
    fence<order::acq_rel, scope::system>();
    nvshmem_fence();
  }
  BATON_FN void signal(int rank, std::uint64_t* word, std::uint64_t value) const {
    nvshmemx_signal_op(word, value, NVSHMEM_SIGNAL_SET, rank);
  }

 private:
  BATON_FN void copy(vec16* to, const vec16* from, int count) const {
    constexpr int ahead = 4;
    for (int first = lane(); first < count; first += ahead * warp_lanes) {
      vec16 held[ahead];
      BATON_UNROLL
      for (int i = 0; i < ahead; ++i)
        if (const int at = first + i * warp_lanes; at < count) held[i] = read(from + at);
      BATON_UNROLL
      for (int i = 0; i < ahead; ++i)
        if (const int at = first + i * warp_lanes; at < count) write(to + at, held[i]);
    }
  }
};

}  // namespace baton
