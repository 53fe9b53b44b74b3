#pragma once
// Tensor verbs of the seam: the copy engine moves boxes of a matrix between global and shared memory, swizzled so that products
// can read them. A context that has them satisfies tensor_exec_context. They extend exec/mbarrier.hpp.
//
//   verbs of one lane
//     tensor_load(to, map, box, b)           the box to shared memory; its bytes are counted on b as they land
//     tensor_load_to(to, map, box, b, blocks)   to the same place in every block of the cluster that `blocks` names (bit i: block
//                                            i), counted on the same barrier of each. None of them may have ended
//     tensor_store(map, box, from)           shared to global, a box of no negative origin (which a GPU takes for an illegal
//                                            instruction); bulk_commit() closes a group of them, bulk_wait_read() waits
//     prefetch(map)                          the map will be needed soon
//     mbarrier_arrive<scope>(b, n), mbarrier_arrive_expect<scope>(b, bytes), mbarrier_arrive_at<scope>(b, block, n)
//                                            arrivals whose release of *plain* accesses reaches no further than `scope`: block
//                                            or cluster. What copies and products did that were waited for goes wherever the
//                                            arrival goes. Without a scope: as exec/mbarrier.hpp says
//
// A box is `box_rows` rows of 128 bytes. In shared memory it is a swizzled_tile (exec/tile.hpp), aligned to 1024 bytes. What
// sticks out of the matrix is zeros on the way in and is left out on the way out; the bytes counted are those of the whole box.
#include <concepts>
#include <cstddef>
#include <cstdint>

#include "exec/mbarrier.hpp"
#include "exec/tile.hpp"

namespace baton {

/// Where a box begins, in elements.
struct box_origin {
  int column, row;
};

/// A matrix in global memory, row by row, and the boxes it is moved in.
struct tensor_layout {
  const void* base = nullptr;  // aligned to 16 bytes
  int element_bytes = 2;       // 1, 2 or 4
  std::int64_t columns = 0, rows = 0;
  std::int64_t row_bytes = 0;  // from a row to the next: a multiple of 16
  int box_rows = 0;            // 1 to 256
};

/// The same as the device takes it: opaque, made by the host (runtime/tensor_map.hpp), passed to kernels by value.
struct alignas(128) tensor_map {
  std::byte opaque[128];
};

template <class X>
concept tensor_exec_context = async_exec_context<X> &&
    requires(X& x, std::byte* shared, const tensor_map& map, mbarrier* b) {
  x.tensor_load(shared, map, box_origin{0, 0}, b);
  x.tensor_load_to(shared, map, box_origin{0, 0}, b, 3u);
  x.tensor_store(map, box_origin{0, 0}, shared);
  x.prefetch(map);
  x.template mbarrier_arrive<scope::block>(b, 1);
  x.template mbarrier_arrive_expect<scope::block>(b, 16);
  x.template mbarrier_arrive_at<scope::block>(b, 0, 1);
};

}  // namespace baton
