// Tensor copies and group barriers of the machine.
#include <fmt/format.h>

#include "baton/error.hpp"
#include "sim/context.hpp"
#include "sim/machine_state.hpp"
#include "sim/tensor_map.hpp"

namespace baton::sim {
namespace {

constexpr std::ptrdiff_t tile_alignment = 1024;

void require_box(const block_state& home, const std::byte* shared, const tensor_boxes& tensor) {
  const std::ptrdiff_t offset = shared - home.shared.data(), bytes = tensor.box_rows() * box_row_bytes;
  if (offset % tile_alignment != 0)
    throw error{fmt::format("tensor copy at shared + {}: expected a multiple of {}", offset, tile_alignment)};
  if (offset < 0 || offset + bytes > static_cast<std::ptrdiff_t>(home.shared.size()))
    throw error{fmt::format("tensor copy of {} bytes at shared + {}: shared memory has {}", bytes, offset,
                            home.shared.size())};
}

}  // namespace

void context::load_box(block_state& to_block, void* to, const tensor_map& map, const box_place& place,
                       mbarrier* b) {
  const tensor_boxes tensor = boxes_of(map);
  require_box(*me_.home, static_cast<std::byte*>(to), tensor);
  copy_piece whole;
  whole.to = to_block.shared.data() + (static_cast<std::byte*>(to) - shared_);
  whole.bytes = static_cast<std::size_t>(tensor.box_rows()) * box_row_bytes;
  whole.box = box_rows{tensor, place, 0};
  whole.counts_on =
      reinterpret_cast<mbarrier*>(to_block.shared.data() + (reinterpret_cast<std::byte*>(b) - shared_));
  whole.owner = &me_;
  whole.block = &to_block;
  machine_.issue(whole);
}

void context::tensor_load(void* to, const tensor_map& map, box_origin box, mbarrier* b) {
  box_load(to, map, {box.column, box.row}, b);
}

void context::box_load(void* to, const tensor_map& map, const box_place& place, mbarrier* b) {
  load_box(*me_.home, to, map, place, b);
  scheduling_point();
}

void context::tensor_load_to(void* to, const tensor_map& map, box_origin box, mbarrier* b,
                             std::uint32_t blocks) {
  load_box_to("tensor_load_to", to, map, {box.column, box.row}, b, blocks);
}

void context::box_load_to(void* to, const tensor_map& map, const box_place& place, mbarrier* b,
                          std::uint32_t blocks) {
  load_box_to("box_load_to", to, map, place, b, blocks);
}

void context::load_box_to(const char* verb, void* to, const tensor_map& map, const box_place& place,
                          mbarrier* b, std::uint32_t blocks) {
  for (int block = 0; block < 32; ++block) {
    if ((blocks >> block & 1u) == 0) continue;
    load_box(block_of_cluster(verb, block), to, map, place, b);
  }
  scheduling_point();
}

void context::tensor_store(const tensor_map& map, box_origin box, const void* from) {
  store_box("tensor_store", map, {box.column, box.row}, from);
}

void context::box_store(const tensor_map& map, const box_place& place, const void* from) {
  store_box("box_store", map, place, from);
}

void context::store_box(const char* verb, const tensor_map& map, const box_place& place, const void* from) {
  const tensor_boxes tensor = boxes_of(map);
  require_box(*me_.home, static_cast<const std::byte*>(from), tensor);
  if (place.at[1] < 0 || place.at[0] < 0)
    throw error{fmt::format("{}: the box begins at row {}, column {}; expected 0 or more of both", verb,
                            place.at[1], place.at[0])};
  copy_piece whole;
  whole.from = static_cast<const std::byte*>(from);
  whole.bytes = static_cast<std::size_t>(tensor.box_rows()) * box_row_bytes;
  whole.box = box_rows{tensor, place, 0};
  whole.owner = &me_;
  whole.group = me_.open_group;
  machine_.issue(whole);
  scheduling_point();
}

void context::store_counted_bytes(int block, void* to, const void* value, std::size_t bytes, mbarrier* b) {
  scheduling_point();
  if (gave_up()) return;
  if (cluster_blocks() == 1)
    throw error{"store_counted: in a block alone; a GPU has such stores in clusters of several blocks only"};
  block_state& there = block_of_cluster("store_counted", block);
  const auto in_there = [&](const void* at) {
    return there.shared.data() + (static_cast<const std::byte*>(at) - shared_);
  };
  copy_piece piece;
  piece.to = in_there(to);
  piece.bytes = bytes;
  piece.counts_on = reinterpret_cast<mbarrier*>(in_there(b));
  piece.owner = &me_;
  piece.block = &there;
  piece.is_read = true;
  piece.is_plain = true;
  piece.held.assign(static_cast<const std::byte*>(value), static_cast<const std::byte*>(value) + bytes);
  machine_.issue_one(piece);
}

void context::sync_groups(int id, int groups) {
  require_whole("sync_groups");
  if (id < 1 || id > 15 || groups < 1 || groups * group_warps > shape_.warps)
    throw error{fmt::format("sync_groups: barrier {} of {} groups; expected 1 to 15 of 1 to {}", id, groups,
                            shape_.warps / group_warps)};
  me_.stores.move_to(me_.home->stores);
  me_.shared_stores.to_memory();
  group_barrier& b = me_.home->group_barriers[id];
  if (b.arrived > 0 && b.groups != groups)
    throw error{fmt::format("sync_groups: barrier {} is for {} groups, and somebody waits there for {}", id,
                            groups, b.groups)};
  b.groups = groups;
  if (++b.arrived == groups * group_warps) return machine_.open_barrier(*me_.home, id);
  me_.why = blocked::group_barrier;
  me_.group_barrier = id;
  machine_.yield(me_);
}

const std::byte* context::engine_view(const std::byte* shared, std::size_t bytes) const {
  const std::ptrdiff_t offset = shared - shared_;
  if (offset < 0 || offset + bytes > me_.home->shared.size())
    throw error{fmt::format("a product reads {} bytes at shared + {}: shared memory has {}", bytes, offset,
                            me_.home->shared.size())};
  return me_.home->engine_view.empty() ? shared : me_.home->engine_view.data() + offset;
}

bool context::engine_is_quick() {
  return machine_.opts.order != schedule::round_robin && machine_.random() % 4 == 0;
}

}  // namespace baton::sim
