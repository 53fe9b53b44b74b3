#include "forecast/question.hpp"

#include <fmt/format.h>

#include <cmath>

#include "kernels/ep/shape.hpp"

namespace baton::forecast {
namespace {

std::string why_not(const link_facts& l) {
  const auto bad = [](const char* name, double value, bool may_be_none) {
    const bool is_good = std::isfinite(value) && (may_be_none ? value >= 0 : value > 0);
    return is_good ? std::string{}
                   : fmt::format("{}: {} is not a number {} 0", name, value, may_be_none ? "from" : "above");
  };
  std::string reason = bad("near_gb_per_s", l.near_gb_per_s, false);
  if (reason.empty()) reason = bad("near_us", l.near_us, true);
  if (reason.empty()) reason = bad("nic_gb_per_s", l.nic_gb_per_s, false);
  if (reason.empty()) reason = bad("nic_us", l.nic_us, true);
  if (reason.empty()) reason = bad("nic_messages_per_us", l.nic_messages_per_us, false);
  if (reason.empty()) reason = bad("nic_overhead_bytes", l.nic_overhead_bytes, true);
  if (reason.empty() && l.ranks_per_nic < 1)
    reason = fmt::format("ranks_per_nic: {} is not a number above 0", l.ranks_per_nic);
  return reason;
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
  std::string reason = baton::why_not(few, std::min(q.ranks, ep::max_ranks));
  return reason.empty() ? why_not(q.links) : reason;
}

}  // namespace baton::forecast
