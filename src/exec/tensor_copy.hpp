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
//     box_load(to, map, place, b), box_load_to(to, map, place, b, blocks), box_store(map, place, from)
//                                            the same of a box of tensor_boxes, whose map it has to be
//     box_load_once(to, map, place, b)       box_load of what nobody reads again soon: the cache gives away its lines first
//     ask_for_box(map, place)                the box will be needed soon: the device's cache fetches it
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

/// A tensor of up to five dimensions, and boxes of it. Extents are in elements but for the first, a box's first extent is 128
/// bytes. A box is as many rows of 128 bytes as its other extents say, those of the second dimension first. Dimensions may
/// overlap in memory: what is read is what base + sum of place[d] * stride[d] says.
struct tensor_boxes {
  static constexpr int most_dims = 5;
  const void* base = nullptr;  // aligned to 16 bytes
  int element_bytes = 2;       // 1, 2 or 4
  std::int64_t extents[most_dims] = {1, 1, 1, 1, 1};
  std::int64_t strides[most_dims - 1] = {16, 16, 16, 16};  // of dimensions 1 to 4, in bytes: multiples of 16
  int box[most_dims] = {1, 1, 1, 1, 1};                    // 1 to 256; [0]: 128 bytes of elements
  int fetch_bytes = 256;  // or 128: what the device's cache asks memory for at a time

  constexpr int box_rows() const { return box[1] * box[2] * box[3] * box[4]; }
};
/// Where a box of tensor_boxes begins, in elements of each dimension.
struct box_place {
  std::int32_t at[tensor_boxes::most_dims];
};

/// Boxes of a matrix, as boxes.
constexpr tensor_boxes boxes_of(const tensor_layout& m) {
  tensor_boxes boxes{.base = m.base, .element_bytes = m.element_bytes};
  boxes.extents[0] = m.columns, boxes.extents[1] = m.rows;
  boxes.strides[0] = m.row_bytes;
  boxes.box[0] = swizzled_tile<std::byte>::row_bytes / m.element_bytes, boxes.box[1] = m.box_rows;
  return boxes;
}

/// The same as the device takes it: opaque, made by the host (runtime/tensor_map.hpp), passed to kernels by value.
struct alignas(128) tensor_map {
  std::byte opaque[128];
};

template <class X>
concept tensor_exec_context = async_exec_context<X> &&
    requires(X& x, std::byte* shared, const tensor_map& map, mbarrier* b) {
  x.tensor_load(shared, map, box_origin{0, 0}, b);
  x.tensor_load_to(shared, map, box_origin{0, 0}, b, 3u);
  x.box_load(shared, map, box_place{}, b);
  x.box_load_once(shared, map, box_place{}, b);
  x.box_load_to(shared, map, box_place{}, b, 3u);
  x.box_store(map, box_place{}, shared);
  x.ask_for_box(map, box_place{});
  x.tensor_store(map, box_origin{0, 0}, shared);
  x.prefetch(map);
  x.template mbarrier_arrive<scope::block>(b, 1);
  x.template mbarrier_arrive_expect<scope::block>(b, 16);
  x.template mbarrier_arrive_at<scope::block>(b, 0, 1);
};

}  // namespace baton
