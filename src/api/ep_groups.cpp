#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "baton/error.hpp"
#include "baton/expert_parallel.hpp"
#include "kernels/ep/shape.hpp"

namespace baton {
namespace {

/// The lowest rank whose group of so many ranks has another host's before it; as many as there are ranks: none.
std::size_t first_stranger(std::span<const int> hosts, std::size_t group) {
  std::size_t r = 0;
  while (r < hosts.size() && hosts[r] == hosts[r / group * group]) ++r;
  return r;
}

/// Of the ranks of a host, of which a group has some: the most that divide them.
std::size_t largest_group(std::size_t of_host) {
  std::size_t group = std::min(of_host, std::size_t{ep::max_near_ranks});
  while (of_host % group != 0) --group;
  return group;
}

std::string hosts_text(std::span<const int> hosts) {
  return fmt::format("{}", fmt::join(hosts, " "));
}

}  // namespace

ep_config in_groups_by_host(const ep_config& config, std::span<const int> hosts) {
  if (hosts.empty()) throw invalid_argument{"host_of_rank: of no rank, expected a host of each"};
  const auto of_first = static_cast<std::size_t>(std::count(hosts.begin(), hosts.end(), hosts.front()));
  if (of_first == hosts.size()) return config;
  ep_config c = config;
  if (c.p2p_group_size == 0) {
    const bool are_as_many = std::all_of(hosts.begin(), hosts.end(), [&](int host) {
      return static_cast<std::size_t>(std::count(hosts.begin(), hosts.end(), host)) == of_first;
    });
    if (!are_as_many || first_stranger(hosts, of_first) < hosts.size())
      throw invalid_argument{
          fmt::format("p2p_group_size: 0 means the ranks of a host, which are not as many on each, one host "
                      "after the other (hosts of ranks: {}); start them so, or say a size by which no group "
                      "is of two hosts",
                      hosts_text(hosts))};
    c.p2p_group_size = static_cast<int>(largest_group(of_first));
    return c;
  }
  if (c.p2p_group_size < 1) return c;  // refused as on one host
  const auto group = static_cast<std::size_t>(c.p2p_group_size);
  if (const std::size_t r = first_stranger(hosts, group); r < hosts.size())
    throw invalid_argument{fmt::format(
        "p2p_group_size: {} puts ranks {} and {} into one group, which are on different hosts (hosts of "
        "ranks: {}); use 0, for the ranks of a host, or a size that divides them",
        c.p2p_group_size, r / group * group, r, hosts_text(hosts))};
  return c;
}

}  // namespace baton
