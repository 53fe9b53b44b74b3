#include "forecast/question.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/ep/shape.hpp"

namespace baton::forecast {

/// Numbers are such that no time of a round is infinite, nor longer than a column.
std::string why_not(const link_facts& l) {
  constexpr double slowest = 1e-3, most = 1e6;
  const struct {
    const char* name;
    double value, least, most;
  } facts[] = {{"near_gb_per_s", l.near_gb_per_s, slowest, most},
               {"near_us", l.near_us, 0, most},
               {"nic_gb_per_s", l.nic_gb_per_s, slowest, most},
               {"nic_us", l.nic_us, 0, most},
               {"nic_messages_per_us", l.nic_messages_per_us, slowest, most},
               {"nic_overhead_bytes", static_cast<double>(l.nic_overhead_bytes), 0, most},
               {"ranks_per_nic", static_cast<double>(l.ranks_per_nic), 1, most_ranks}};
  for (const auto& fact : facts)
    if (!(fact.value >= fact.least && fact.value <= fact.most))
      return fmt::format("{}: {} is outside [{}, {}]", fact.name, fact.value, fact.least, fact.most);
  return {};
}

namespace {

/// A group's cards are its own, and its ranks share them evenly.
std::string why_not_shared(const question& q) {
  const bool has_cards = q.groups() > 1 && !q.links.one_host;
  if (!has_cards || q.group_size() % q.links.ranks_per_nic == 0) return {};
  return fmt::format("ranks_per_nic: {} does not divide the {} of a p2p group, which has cards of its own",
                     q.links.ranks_per_nic, q.group_size());
}

}  // namespace

/// Whatever a communicator of few ranks is asked, and what is of so many.
std::string why_not(const question& q) {
  if (q.ranks < 1 || q.ranks > most_ranks)
    return fmt::format("ranks: {} is outside [1, {}]", q.ranks, most_ranks);
  if (q.config.num_experts < q.ranks)
    return fmt::format(
        "num_experts: {} experts are fewer than {} ranks; every rank needs one, use at most {} ranks",
        q.config.num_experts, q.ranks, q.config.num_experts);
  if (q.config.p2p_group_size < 0 || q.config.p2p_group_size > q.ranks)
    return fmt::format("p2p_group_size: {} is outside [1, {}], the ranks; 0 means all",
                       q.config.p2p_group_size, q.ranks);
  ep_config few = q.config;
  few.p2p_group_size = 0;
  few.levels = ep_levels::one;
  std::string reason = baton::why_not(few, std::min(q.ranks, ep::max_near_ranks));
  if (reason.empty()) reason = why_not(q.links);
  return reason.empty() ? why_not_shared(q) : reason;
}

ep_transfer transfer_in_group(const question& q) {
  if (q.groups() > 1) return ep_transfer::chunks;
  return transfer_of(q.config, std::min(q.ranks, ep::max_near_ranks));
}

}  // namespace baton::forecast
