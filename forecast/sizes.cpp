#include "forecast/sizes.hpp"

#include "kernels/ep/per_expert/layout.hpp"
#include "kernels/ep/per_rank_chunks/cells.hpp"
#include "kernels/ep/shape_of.hpp"

namespace baton::forecast {
namespace {

using per_rank_cells = ep::per_rank::cells;
using chunk_cells = ep::per_rank_chunks::cells;

/// Of a rank among so many as the kernels' arrays have room for: what a message takes does not depend on them.
ep::shape shape_of_message(const question& q) {
  return ep::shape_of(q.config, std::min(q.ranks, ep::max_near_ranks), 0);
}

chunk_cells chunks_of(const ep::shape& s) {
  return chunk_cells{s, ep::per_rank_chunks::settings_for(s)};
}

void add_per_rank(const question& q, const ep::shape& s, const chunk_cells& chunks, message_sizes& all) {
  all.far_message = chunks.token_bytes;
  all.far_reply = chunks.sum_bytes(s, s.sum_format());
  all.parts_of_reply = chunks.sum_parts;
  all.near_ids = all.far_ids = chunks.id_accesses * static_cast<int>(line_access_bytes);
  all.far_id_puts = chunks.id_accesses;
  all.group_message = all.far_message;
  const ep::per_rank_chunks::chunk_settings settings = ep::per_rank_chunks::settings_for(s);
  all.tile_tokens = settings.tile_tokens;
  all.tile_warps = settings.dispatch_senders;
  const ep_transfer near = transfer_in_group(q);
  all.near_in_chunks = near == ep_transfer::chunks;
  if (all.near_in_chunks) {
    all.near_message = all.far_message;
    all.near_reply = all.far_reply;
    return;
  }
  const per_rank_cells lines{s};
  all.near_message = lines.token_units * ep::per_rank::unit_bytes;
  all.near_reply = lines.sum_units * static_cast<int>(line_access_bytes);
  if (near == ep_transfer::flags)
    all.near_ids =
        ep::per_rank::flag_cells{s}.id_accesses * warp_lanes * static_cast<int>(sizeof(std::uint64_t));
}

std::size_t window_bytes(const question& q) {
  const ep::shape s = ep::shape_of(q.config, q.ranks, 0);
  if (q.per_expert()) return q.groups() > 1 ? ep::send_layout{s}.bytes : ep::window_layout{s}.bytes;
  const chunk_cells chunks = chunks_of(s);
  if (q.forwards() && q.ranks % q.group_size() == 0)
    return ep::per_rank_chunks::group_cells{s, chunks, q.group_size()}.bytes;
  if (q.groups() > 1) return ep::per_rank_chunks::far_cells{s, chunks}.bytes;
  if (transfer_in_group(q) == ep_transfer::chunks) return chunks.bytes;
  return q.ranks <= ep::max_near_ranks ? per_rank_cells{s}.bytes() : 0;
}

}  // namespace

message_sizes sizes_of(const question& q) {
  const ep::shape s = shape_of_message(q);
  const chunk_cells chunks = chunks_of(s);
  message_sizes all{};
  all.tokens_stay = s.rows == ep::row_storage::in_window;
  all.row_payload = s.payload_bytes() + s.scale_bytes();
  all.group_message = chunks.token_bytes + align_up(ep::per_rank::id_bytes * s.top_k, 16);
  all.parts_of_reply = 1;
  all.group_reply = chunks.sum_bytes(s, s.sum_format());
  if (q.per_expert()) {
    all.near_message = all.far_message = s.message_bytes();
    all.near_reply = all.far_reply = s.combine_bytes();
  } else {
    add_per_rank(q, s, chunks, all);
  }
  all.window_bytes = window_bytes(q);
  return all;
}

}  // namespace baton::forecast
