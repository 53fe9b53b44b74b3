// libbaton_nvshmem.so: the kernels that put, a file for each layout, and NVSHMEM's calls. A library of its own, as NVSHMEM's
// device code has to be linked into what uses it, and only who asks for it needs NVSHMEM.
#include <cstring>

#include "exec/build_id.hpp"
#include "nvshmem/entry_beyond.cuh"

namespace baton {
namespace {

static_assert(sizeof(nvshmemx_uniqueid_t) <= nvshmem_id_bytes);

int make_id(void* id) {
  nvshmemx_uniqueid_t made = NVSHMEMX_UNIQUEID_INITIALIZER;
  const int status = nvshmemx_get_uniqueid(&made);
  std::memcpy(id, &made, sizeof made);
  return status;
}

int join(int rank, int ranks, const void* id) {
  nvshmemx_uniqueid_t of_all = NVSHMEMX_UNIQUEID_INITIALIZER;
  std::memcpy(&of_all, id, sizeof of_all);
  nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
  if (const int status = nvshmemx_set_attr_uniqueid_args(rank, ranks, &of_all, &attributes); status != 0)
    return status;
  return nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attributes);
}

int launch(const nvshmem_launch& l) {
  using kernel = nvshmem_launch::kernel;
  if (l.what == kernel::lost_rank) return enqueue_lost_rank(l);
  const bool is_per_expert = l.what == kernel::dispatch_async || l.what == kernel::combine_async;
  if (is_per_expert) return enqueue_per_expert(l);
  return l.has_two_levels ? enqueue_two_levels(l) : enqueue_chunks(l);
}

const nvshmem_calls calls{.build = build_id(),
                          .built_with = NVSHMEM_VENDOR_MAJOR_VERSION * 10000 +
                                        NVSHMEM_VENDOR_MINOR_VERSION * 100 + NVSHMEM_VENDOR_PATCH_VERSION,
                          .make_id = make_id,
                          .join = join,
                          .allocate = [](std::size_t bytes) { return nvshmem_malloc(bytes); },
                          .of_rank = [](const void* memory, int rank) { return nvshmem_ptr(memory, rank); },
                          .launch = launch};

}  // namespace
}  // namespace baton

extern "C" __attribute__((visibility("default"))) const baton::nvshmem_calls* baton_nvshmem() {
  return &baton::calls;
}
