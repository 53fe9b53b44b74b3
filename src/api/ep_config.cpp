#include <fmt/format.h>

#include <algorithm>

#include "api/ep_layout.hpp"
#include "baton/error.hpp"
#include "baton/expert_parallel.hpp"
#include "kernels/ep/per_expert/layout.hpp"
#include "kernels/ep/per_rank/launch.hpp"
#include "kernels/ep/per_rank_chunks/launch.hpp"
#include "protocol/membership.hpp"

namespace baton {
namespace {

static_assert(most_ep_ranks == ep::max_ranks && most_ranks_of_p2p_group == ep::max_near_ranks);

constexpr int most_slots = 8;
constexpr std::size_t slot_alignment = 256;

std::string outside(const char* name, int value, int low, int high) {
  return fmt::format("{}: {} is outside [{}, {}]", name, value, low, high);
}

std::string why_not_shape(const ep_config& c, int num_ranks) {
  if (num_ranks < 1 || num_ranks > ep::max_ranks) return outside("ranks", num_ranks, 1, ep::max_ranks);
  if (num_ranks > ep::max_near_ranks && c.p2p_group_size == 0)
    return fmt::format(
        "ranks: {} are more than the {} of a p2p group; use fewer, or groups of up to {} (p2p_group_size), "
        "which reach "
        "each other by puts",
        num_ranks, ep::max_near_ranks, ep::max_near_ranks);
  if (num_ranks > ep::max_near_ranks && (c.p2p_group_size < 1 || c.p2p_group_size > ep::max_near_ranks))
    return fmt::format("p2p_group_size: {} is outside [1, {}], what a p2p group of {} ranks may have",
                       c.p2p_group_size, ep::max_near_ranks, num_ranks);
  if (c.num_experts < 1 || c.num_experts > ep::max_experts)
    return outside("num_experts", c.num_experts, 1, ep::max_experts);
  if (c.num_experts < num_ranks)
    return fmt::format(
        "num_experts: {} experts are fewer than {} ranks; every rank needs one, use at most {} ranks",
        c.num_experts, num_ranks, c.num_experts);
  if (c.top_k < 1 || c.top_k > ep::max_top_k) return outside("top_k", c.top_k, 1, ep::max_top_k);
  if (c.format < token_format::bf16 || c.format > token_format::nvfp4)
    return fmt::format("format: {} is no token_format", static_cast<int>(c.format));
  if (c.combine_format < token_format::bf16 || c.combine_format > token_format::nvfp4)
    return fmt::format("combine_format: {} is no token_format", static_cast<int>(c.combine_format));
  if (c.arrival != arrival_policy::epoch && c.arrival != arrival_policy::sentinel)
    return fmt::format("arrival: {} is no arrival_policy", static_cast<int>(c.arrival));
  if (c.layout != ep_layout::per_expert && c.layout != ep_layout::per_rank)
    return fmt::format("layout: {} is no ep_layout", static_cast<int>(c.layout));
  if (c.transfer != ep_transfer::automatic && c.transfer != ep_transfer::lines &&
      c.transfer != ep_transfer::chunks && c.transfer != ep_transfer::flags)
    return fmt::format("transfer: {} is no ep_transfer", static_cast<int>(c.transfer));
  if (c.rows != ep_rows::by_expert && c.rows != ep_rows::by_token)
    return fmt::format("rows: {} is no ep_rows", static_cast<int>(c.rows));
  const format_facts facts = facts_of(c.format);
  const int unit = facts.multiple;
  if (c.hidden < unit || c.hidden % unit != 0)
    return fmt::format("hidden: {} is not a positive multiple of {}", c.hidden, unit);
  if (c.tiled_scales && facts.scale_bytes != 1)
    return fmt::format("tiled_scales: tiles are of scales of one byte, which format {} does not have",
                       name(c.format));
  if (c.tiled_scales && c.rows == ep_rows::by_token)
    return "tiled_scales: with rows by_token a token's scales lie beside its values, not in tiles; use rows "
           "by_expert";
  if (c.hidden > ep::max_hidden) return outside("hidden", c.hidden, unit, ep::max_hidden);
  return {};
}

/// Who would forward, and what.
std::string why_not_levels(const ep_config& c, int num_ranks) {
  if (c.levels != ep_levels::one && c.levels != ep_levels::two)
    return fmt::format("levels: {} is no ep_levels", static_cast<int>(c.levels));
  if (c.levels == ep_levels::one || !goes_beyond_group(c, num_ranks)) return {};
  if (c.layout != ep_layout::per_rank)
    return "levels: two, but with layout per_expert a token is a message for each of its experts, which "
           "nobody "
           "forwards; use layout per_rank, or levels one";
  if (num_ranks % c.p2p_group_size != 0)
    return fmt::format(
        "levels: two, but groups of {} of {} ranks are not all as large, so that some ranks have no "
        "forwarder "
        "in the last one; use a p2p_group_size that divides the ranks, or levels one",
        c.p2p_group_size, num_ranks);
  return {};
}

/// What travels back. A reply of layout per_expert is an expert's output as it is, which nothing has been added to.
std::string why_not_back(const ep_config& c) {
  if (c.combine_format == token_format::bf16) return {};
  if (c.combine_format != token_format::blockwise_fp8)
    return fmt::format("combine_format: sums travel back in {} or {}, not in {}; use one of these",
                       name(token_format::bf16), name(token_format::blockwise_fp8), name(c.combine_format));
  if (c.layout != ep_layout::per_rank)
    return fmt::format(
        "combine_format: {}, but with layout per_expert experts' outputs travel back as they are; use layout "
        "per_rank, or {}",
        name(c.combine_format), name(token_format::bf16));
  if (const int unit = facts_of(c.combine_format).multiple; c.hidden % unit != 0)
    return fmt::format("hidden: {} is not a multiple of {}, as combine_format {} asks for", c.hidden, unit,
                       name(c.combine_format));
  return {};
}

/// The kernels round up by masks, hence powers of two.
std::string why_not_alignment(const ep_config& c) {
  constexpr int most = 128;
  const int asked = c.row_alignment;
  if (asked < 0 || asked > most || (asked & (asked - 1)) != 0)
    return fmt::format(
        "row_alignment: {} is not a power of two up to {}; 0 means as little as the format asks for", asked,
        most);
  const int least = shape_of(c, 1, 0).row_alignment();  // unless more was asked for
  if (asked != 0 && asked < least)
    return fmt::format("row_alignment: {} is less than the {} that {} asks for; use 0 or {}", asked, least,
                       c.tiled_scales ? "tiled_scales" : fmt::format("format {}", name(c.format)), least);
  return {};
}

/// Kernels of combine count 16 bytes of rows in 32 bits.
std::string why_not_rows_of_expert(const ep_config& c, int num_ranks) {
  const int asked = c.rows_of_expert;
  if (asked == 0) return {};
  if (c.layout != ep_layout::per_rank || c.rows != ep_rows::by_expert)
    return fmt::format(
        "rows_of_expert: {}, but only layout per_rank with rows by_expert has rows of its own for each "
        "expert; "
        "use these, or 0 and pad_rows",
        asked);
  const std::int64_t least = std::int64_t{num_ranks} * c.num_max_tokens_per_rank;
  if (asked < least)
    return fmt::format(
        "rows_of_expert: {} are fewer than the {} rows that {} ranks of {} tokens may send to an expert; "
        "use at least as many, or 0",
        asked, least, num_ranks, c.num_max_tokens_per_rank);
  const ep::shape s = shape_of(c, num_ranks, 0);
  if (asked % s.row_alignment() != 0)
    return fmt::format(
        "rows_of_expert: {} is not a multiple of {}, which experts' first rows are multiples of", asked,
        s.row_alignment());
  constexpr std::int64_t most = std::int64_t{1} << 31;
  if (const std::int64_t vectors = std::int64_t{asked} * s.max_local_experts() * (c.hidden / 8);
      vectors >= most)
    return fmt::format(
        "rows_of_expert: {} rows of {} experts of {} values are {} GiB of what experts return, and less than "
        "{} are "
        "served; use fewer, or 0",
        asked, s.max_local_experts(), c.hidden, vectors >> 26, most >> 26);
  return {};
}

std::string why_not_late_weights(const ep_config& c, int num_ranks) {
  if (!c.weights_at_combine) return {};
  if (c.layout != ep_layout::per_rank)
    return "weights_at_combine: with layout per_expert combine_wait is given weights anyway; use false, or "
           "layout per_rank";
  if (goes_beyond_group(c, num_ranks))
    return fmt::format(
        "weights_at_combine: {} of {} ranks are in a p2p group, and weights are stored into others' memory; "
        "use one group (p2p_group_size 0, up to {} ranks), or give weights to dispatch",
        c.p2p_group_size, num_ranks, ep::max_near_ranks);
  return {};
}

std::string why_not_launch(const ep_config& c, int num_ranks) {
  if (c.num_max_tokens_per_rank < 1 || c.num_max_tokens_per_rank > ep::max_tokens_per_rank)
    return outside("num_max_tokens_per_rank", c.num_max_tokens_per_rank, 1, ep::max_tokens_per_rank);
  if (c.p2p_group_size != 0 && (c.p2p_group_size < 1 || c.p2p_group_size > num_ranks))
    return fmt::format("p2p_group_size: {} is outside [1, {}], the ranks; 0 means the ranks of a host",
                       c.p2p_group_size, num_ranks);
  if (const std::string reason = why_not_levels(c, num_ranks); !reason.empty()) return reason;
  if (goes_beyond_group(c, num_ranks) && c.layout == ep_layout::per_rank &&
      c.transfer != ep_transfer::automatic && c.transfer != ep_transfer::chunks)
    return fmt::format(
        "p2p_group_size: {} of {} ranks, but lines and flags are stores, which reach the ranks of a group; "
        "use transfer automatic or chunks, or one group (0, up to {} ranks)",
        c.p2p_group_size, num_ranks, ep::max_near_ranks);
  if (c.num_slots < 1 || c.num_slots > most_slots) return outside("num_slots", c.num_slots, 1, most_slots);
  if (c.num_sms < 0) return fmt::format("num_sms: {} is negative; 0 means all", c.num_sms);
  if (c.num_sms > ep::max_blocks) return outside("num_sms", c.num_sms, 0, ep::max_blocks);
  if (c.num_threads < 0 || c.num_threads > 1024 || c.num_threads % warp_lanes != 0)
    return fmt::format("num_threads: {} is not a multiple of 32 up to 1024", c.num_threads);
  if (c.layout != ep_layout::per_rank && c.rows == ep_rows::by_token)
    return "rows: by_token, but layout per_expert has a message for each expert of a token; use layout "
           "per_rank, or "
           "by_expert";
  if (c.layout == ep_layout::per_rank) {
    if (c.num_threads != 0 && (c.num_threads < 96 || c.num_threads > 768))
      return fmt::format("num_threads: {} is outside [96, 768], what layout per_rank's blocks may have",
                         c.num_threads);
    if (c.transfer == ep_transfer::flags && facts_of(c.format).scale_bytes == 1)
      return fmt::format("format: {} does not travel by flags yet; use transfer automatic, lines or chunks",
                         name(c.format));
    const ep::shape s = shape_of(c, num_ranks, 0);
    return transfer_of(c, num_ranks) == ep_transfer::chunks ? ep::per_rank_chunks::why_not(s)
                                                            : ep::per_rank::why_not(s);
  }
  return {};
}

}  // namespace

std::string why_not(const ep_config& config, int num_ranks) {
  std::string reason = why_not_shape(config, num_ranks);
  if (reason.empty()) reason = why_not_back(config);
  if (reason.empty()) reason = why_not_alignment(config);
  if (reason.empty()) reason = why_not_rows_of_expert(config, num_ranks);
  if (reason.empty()) reason = why_not_late_weights(config, num_ranks);
  return reason.empty() ? why_not_launch(config, num_ranks) : reason;
}

/// Over so many tokens chunks are faster than lines, whose blocks keep the routing of all ranks: for fewer too there may be no
/// room.
ep_transfer transfer_of(const ep_config& c, int num_ranks) {
  constexpr int most_tokens_of_lines = 1024;
  if (c.transfer != ep_transfer::automatic) return c.transfer;
  if (goes_beyond_group(c, num_ranks)) return ep_transfer::chunks;
  if (c.num_max_tokens_per_rank > most_tokens_of_lines) return ep_transfer::chunks;
  if (c.num_max_tokens_per_rank < 1 || !why_not_shape(c, num_ranks).empty()) return ep_transfer::lines;
  ep_config in_lines = c;
  in_lines.transfer = ep_transfer::lines;
  const bool has_room = ep::per_rank::why_not(shape_of(in_lines, num_ranks, 0)).empty();
  return has_room ? ep_transfer::lines : ep_transfer::chunks;
}

namespace {

workspace_size bytes_of_slot(const ep_config& c, int num_ranks) {
  const ep::shape s = shape_of(c, num_ranks, 0);
  if (c.layout == ep_layout::per_rank && transfer_of(c, num_ranks) == ep_transfer::chunks) {
    const ep::per_rank_chunks::endpoint end =
        ep::per_rank_chunks::endpoint::of(s, has_many_blocks(c, num_ranks));
    if (has_two_levels(c, num_ranks))
      return {ep::per_rank_chunks::group_cells{s, end.window_cells(), c.p2p_group_size}.bytes,
              ep::per_rank_chunks::group_local_cells{s, end.settings, c.p2p_group_size}.bytes};
    return {goes_beyond_group(c, num_ranks) ? ep::per_rank_chunks::far_cells{s, end.window_cells()}.bytes
                                            : end.window_bytes(),
            ep::per_rank_chunks::local_cells{s}.bytes};
  }
  if (c.layout == ep_layout::per_rank) {
    const bool by_flags = transfer_of(c, num_ranks) == ep_transfer::flags;
    return {by_flags ? ep::per_rank::flag_endpoint::of(s).window_bytes()
                     : ep::per_rank::endpoint::of(s).window_bytes(),
            ep::per_rank::local_cells{s}.bytes};
  }
  return {goes_beyond_group(c, num_ranks) ? ep::send_layout{s}.bytes : ep::window_layout{s}.bytes,
          ep::local_layout{s}.bytes};
}

}  // namespace

workspace_size bytes_before(const ep_config& c, int num_ranks, int slot) {
  const workspace_size each = bytes_of_slot(c, num_ranks);
  const auto slots = static_cast<std::size_t>(slot);
  return {slots * align_up(each.window, slot_alignment), slots * align_up(each.local, slot_alignment)};
}

workspace_size workspace_bytes(const ep_config& c, int num_ranks) {
  if (const std::string reason = why_not(c, num_ranks); !reason.empty()) throw invalid_argument{reason};
  const workspace_size slots = bytes_before(c, num_ranks, c.num_slots);
  return {slots.window + std::max(meeting_steps * most_members, num_ranks) * sizeof(std::uint64_t),
          slots.local + most_members * sizeof(std::uint64_t)};
}

expert_range experts_of_rank(int num_experts, int num_ranks, int rank) {
  if (num_experts < 0) throw invalid_argument{fmt::format("num_experts: {} is negative", num_experts)};
  if (num_ranks < 1) throw invalid_argument{fmt::format("num_ranks: {} is not positive", num_ranks)};
  if (rank < 0 || rank >= num_ranks) throw invalid_argument{outside("rank", rank, 0, num_ranks - 1)};
  const ep::shape s{num_experts, num_ranks, rank};
  return {s.first_expert(rank), s.num_local_experts(rank)};
}

}  // namespace baton
