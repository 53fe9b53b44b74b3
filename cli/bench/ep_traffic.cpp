#include "cli/bench/ep_traffic.hpp"

#include <algorithm>

#include "base/math.hpp"

namespace baton::cli {
namespace {

constexpr std::uint64_t unit_bytes = 8 * 128, unit_weights = 8;
constexpr std::uint64_t sum_unit_bytes = 4 * 128, sum_unit_columns = 240, fp8_unit_columns = 384;
constexpr std::uint64_t id_unit_bytes = 4 * 128, ids_of_unit = 224;
constexpr std::uint64_t id_words_bytes = 32 * 8, ids_of_words = 124;  // by flags

}  // namespace

ep_traffic::ep_traffic(const ep_config& c, int num_ranks)
    : config_{c},
      num_ranks_{num_ranks},
      rows_(static_cast<std::size_t>(num_ranks) * static_cast<std::size_t>(num_ranks), 0),
      messages_(rows_),
      ids_(rows_) {
  const auto hidden = static_cast<std::uint64_t>(c.hidden), top_k = static_cast<std::uint64_t>(c.top_k);
  const format_facts facts = facts_of(c.format);
  const auto payload = static_cast<std::uint64_t>(facts.row_bytes(c.hidden));
  const auto scales = static_cast<std::uint64_t>(facts.row_scales(c.hidden) * facts.scale_bytes);
  row_bytes_ = payload + scales;
  if (c.layout == ep_layout::per_rank && transfer_of(c, num_ranks) == ep_transfer::chunks) {
    message_bytes_ =
        payload + align_up(scales, std::uint64_t{16}) + align_up(sizeof(float) * top_k, std::uint64_t{16});
    const format_facts back = facts_of(c.combine_format);
    reply_bytes_ = static_cast<std::uint64_t>(back.row_bytes(c.hidden)) +
                   static_cast<std::uint64_t>(back.row_scales(c.hidden) * back.scale_bytes);
  } else if (c.layout == ep_layout::per_rank) {
    const std::uint64_t unit_payload = facts.value_bits == 4 ? 768 : 896;
    message_bytes_ = unit_bytes * std::max(ceil_div(payload, unit_payload), ceil_div(top_k, unit_weights));
    reply_bytes_ =
        sum_unit_bytes * ceil_div(hidden, c.combine_format == token_format::blockwise_fp8 ? fp8_unit_columns
                                                                                          : sum_unit_columns);
  } else {
    message_bytes_ = payload + align_up(scales, std::uint64_t{16}) + sizeof(source_info);
    reply_bytes_ = 2 * hidden;
  }
  for (int r = 0; r < num_ranks; ++r)
    home_.insert(home_.end(), static_cast<std::size_t>(experts_of_rank(c.num_experts, num_ranks, r).count),
                 r);
}

void ep_traffic::count(int source, std::span<const std::int32_t> topk_idx) {
  const auto top_k = static_cast<std::size_t>(config_.top_k);
  const bool per_rank = config_.layout == ep_layout::per_rank;
  for (std::size_t first = 0; first < topk_idx.size(); first += top_k) {
    std::uint64_t told = 0;  // bit r: the token has a message to rank r
    for (const std::int32_t id : topk_idx.subspan(first, top_k)) {
      if (id < 0 || id >= config_.num_experts) continue;
      const int to = home_[static_cast<std::size_t>(id)];
      ++rows_[at(source, to)];
      if (!per_rank || (told >> to & 1) == 0) ++messages_[at(source, to)];
      told |= std::uint64_t{1} << to;
    }
  }
  if (!per_rank) return;
  const auto most_ids = static_cast<std::uint64_t>(config_.num_max_tokens_per_rank) * top_k;
  const std::uint64_t bytes = transfer_of(config_, num_ranks_) == ep_transfer::flags
                                  ? id_words_bytes * ceil_div(most_ids, ids_of_words)
                                  : id_unit_bytes * ceil_div(most_ids, ids_of_unit);
  for (int to = 0; to < num_ranks_; ++to) ids_[at(source, to)] += bytes;
}

template <class Bytes>
std::uint64_t ep_traffic::most_of_ranks(Bytes bytes) const {
  std::uint64_t most = 0;
  for (int rank = 0; rank < num_ranks_; ++rank) {
    std::uint64_t sum = 0;
    for (int other = 0; other < num_ranks_; ++other) sum += other == rank ? 0 : bytes(rank, other);
    most = std::max(most, sum);
  }
  return most;
}

std::uint64_t ep_traffic::most_dispatch_bytes_out() const {
  return most_of_ranks([this](int rank, int to) { return dispatch_bytes(rank, to); });
}
std::uint64_t ep_traffic::most_combine_bytes_out() const {
  return most_of_ranks([this](int rank, int to) { return combine_bytes(rank, to); });
}
std::uint64_t ep_traffic::most_dispatch_bytes_in() const {
  return most_of_ranks([this](int rank, int from) { return dispatch_bytes(from, rank); });
}
std::uint64_t ep_traffic::most_combine_bytes_in() const {
  return most_of_ranks([this](int rank, int from) { return combine_bytes(from, rank); });
}
std::uint64_t ep_traffic::most_dispatch_bytes_of_rows_out() const {
  return most_of_ranks(
      [this](int rank, int to) { return rows_between(rank, to) * message_bytes_ + ids_[at(rank, to)]; });
}
std::uint64_t ep_traffic::most_combine_bytes_of_rows_out() const {
  return most_of_ranks([this](int rank, int to) { return rows_between(to, rank) * reply_bytes_; });
}

std::uint64_t ep_traffic::rows_received(int rank) const {
  std::uint64_t rows = 0;
  for (int source = 0; source < num_ranks_; ++source) rows += rows_between(source, rank);
  return rows;
}

std::uint64_t ep_traffic::most_rows_received() const {
  std::uint64_t most = 0;
  for (int rank = 0; rank < num_ranks_; ++rank) most = std::max(most, rows_received(rank));
  return most;
}

}  // namespace baton::cli
