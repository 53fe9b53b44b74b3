#pragma once
// What is asked: an exchange, on how many ranks, reached how.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "baton/expert_parallel.hpp"
#include "forecast/links.hpp"

namespace baton::forecast {

inline constexpr int most_ranks = 1024;

struct question {
  /// num_max_tokens_per_rank tokens on every rank; p2p_group_size: 0 means all ranks; levels: two with layout per_expert, too,
  /// and with groups that are not all as large, which no kernels have.
  ep_config config;
  int ranks = 2;
  link_facts links;

  int group_size() const { return config.p2p_group_size == 0 ? ranks : config.p2p_group_size; }
  int groups() const { return (ranks + group_size() - 1) / group_size(); }
  int group_of(int rank) const { return rank / group_size(); }
  bool is_near(int a, int b) const { return group_of(a) == group_of(b); }
  int tokens() const { return config.num_max_tokens_per_rank; }
  /// Whether what is for other groups is forwarded there.
  bool forwards() const { return config.levels == ep_levels::two && group_size() > 1 && groups() > 1; }
  bool per_expert() const { return config.layout == ep_layout::per_expert; }
  /// The rank of `group` that has the same place there as `rank` has in its own; in a smaller last group, one of those there are.
  int counterpart(int rank, int group) const {
    const int first = group * group_size(), size = std::min(group_size(), ranks - first);
    return first + rank % group_size() % size;
  }
  /// Each group has cards of its own, but for a single one, which needs none.
  int nics_of_group() const { return std::max(1, group_size() / links.ranks_per_nic); }
  int nic_of(int rank) const {
    return group_of(rank) * nics_of_group() + rank % group_size() / links.ranks_per_nic;
  }
  int nics() const { return groups() * nics_of_group(); }
};

/// Fills ids, [tokens, top_k], as one rank's routers chose: -1 is none.
using choices_of_ranks = std::function<void(int rank, std::span<std::int32_t> ids)>;

/// Empty, or the first reason why there is no such exchange, with names and values.
std::string why_not(const question& q);
/// The same of links and cards alone.
std::string why_not(const link_facts& links);

/// How tokens of layout per_rank travel within a group: in chunks, where some ranks are beyond it.
ep_transfer transfer_in_group(const question& q);

}  // namespace baton::forecast
