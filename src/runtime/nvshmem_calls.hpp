#pragma once
// What the module libbaton_nvshmem.so offers to the library, which opens it when a communicator asks for ranks beyond its p2p
// group on GPUs. Of one build with it: nothing here is kept stable.
#include <array>
#include <cstddef>
#include <cstdint>

#include "exec/kernel.hpp"

namespace baton {

/// NVSHMEM's nvshmemx_uniqueid_t has so many bytes.
inline constexpr std::size_t nvshmem_id_bytes = 128;
using nvshmem_id = std::array<char, nvshmem_id_bytes>;

/// A kernel that puts, and what it is asked.
struct nvshmem_launch {
  enum class kernel {
    dispatch_async,  // ep::dispatch_async_params<tensor_scales, peer_puts>
    combine_async,   // ep::combine_async_params<peer_puts>
    dispatch_chunks,  // ep::per_rank_chunks::far_params<any_dispatch_params>, or two_level_params, as the next two
    combine_chunks_to_fp32,  // far_params<any_combine_params<store_fp32>>
    combine_chunks_to_bf16,  // far_params<any_combine_params<store_bf16>>
    lost_rank,               // ep::lost_rank::params
  } what = kernel::dispatch_async;
  int format = 0;   // token_format; chunks have it in their parameters
  int arrival = 0;  // arrival_policy; chunks have one
  bool tokens_are_given = false;
  bool has_two_levels = false;  // of chunks
  launch_grid grid;             // its shared_bytes: of chunks
  const void* params = nullptr;
  std::size_t params_bytes = 0;  // their size, as the library knows them
  launched_by by;
  void* stream = nullptr;
};

/// What `launch` returns where parameters have another size in the module.
inline constexpr int nvshmem_of_another_build = -1;

/// Calls return 0, or what went wrong: NVSHMEM's status, or CUDA's.
struct nvshmem_calls {
  std::uint64_t build = 0;  // build_id() of the module, which stays in front
  int built_with = 0;       // NVSHMEM's version, 30405 for 3.4.5
  int (*make_id)(void* id) = nullptr;
  /// Collective, as `allocate`; the device is current.
  int (*join)(int rank, int ranks, const void* id) = nullptr;
  void* (*allocate)(std::size_t bytes) = nullptr;            // null: there is not as much
  void* (*of_rank)(const void* memory, int rank) = nullptr;  // null: stores do not reach it
  int (*launch)(const nvshmem_launch& l) = nullptr;
};

/// The module's one symbol.
inline constexpr const char* nvshmem_symbol = "baton_nvshmem";
using nvshmem_entry = const nvshmem_calls* (*)();

}  // namespace baton
