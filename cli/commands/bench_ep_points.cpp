#include "cli/commands/bench_ep_points.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "baton/error.hpp"
#include "cli/bench/require_within.hpp"
#include "cli/config_words.hpp"

namespace baton::cli {
namespace {

std::vector<int> tokens_of(const bench_ep_options& o, device_kind device) {
  if (!o.tokens.empty()) return o.tokens;
  return device == device_kind::cuda ? std::vector<int>{1, 8, 32, 128, 512, 4096} : std::vector<int>{16};
}

/// What one layout does not serve but the other does is left out, and said.
std::string why_left_out(const ep_config& config, int ranks) {
  std::string reason = why_not(config, ranks);
  ep_config other = config;
  other.layout = config.layout == ep_layout::per_rank ? ep_layout::per_expert : ep_layout::per_rank;
  if (reason.empty() || !why_not(other, ranks).empty()) require_served(config, ranks, bench_words);
  return reason;
}

/// Every combination of what stands in a heading.
std::vector<wanted_point> all_sizes(const bench_ep_options& o, const recorded_routing* recorded) {
  std::vector<wanted_point> points;
  for (const int replicas : o.replicas) require_within("--replicas", replicas, 0, 1 << 20);
  for (const int experts : o.experts)
    require_served({.num_experts = experts, .top_k = 1, .hidden = 128, .num_max_tokens_per_rank = 1}, 1,
                   bench_words);
  for (const int hidden : o.hidden)
    for (const int experts : o.experts)
      for (const int top_k : o.top_k)
        for (const ep_routing routing : o.routings)
          for (const int replicas : o.replicas) {
            wanted_point p;
            p.config.num_experts = experts + replicas;
            p.config.top_k = top_k;
            p.config.hidden = hidden;
            p.given = {.seed = o.seed,
                       .forms = o.forms,
                       .routing = routing,
                       .num_replicas = replicas,
                       .recorded = recorded};
            points.push_back(std::move(p));
          }
  return points;
}

std::vector<ep_config> configs_of(const bench_ep_options& o, const ep_config& sizes, device_kind device) {
  std::vector<ep_config> configs;
  ep_config c = sizes;
  c.combine_format = o.combine_format;
  c.transfer = o.transfer;
  c.rows = o.rows;
  c.num_threads = o.num_threads;
  for (const int tokens : tokens_of(o, device)) {
    c.num_max_tokens_per_rank = tokens;
    for (const token_format format : o.formats) {
      c.format = format;
      for (const ep_layout layout : o.layouts) {
        c.layout = layout;
        for (const int sms : o.num_sms) {
          c.num_sms = sms;
          configs.push_back(c);
        }
      }
    }
  }
  return configs;
}

std::string why_not_given(const wanted_point& sizes, int ranks) {
  const routing_case routing = sizes.given.routing_of(sizes.config, ranks);
  if (std::string reason = why_not(routing); !reason.empty()) return reason;
  const int most = routing.num_experts * (ranks - 1);
  if (sizes.given.num_replicas > most)
    return fmt::format("--replicas: {} are more than the {} that {} experts on {} ranks can have",
                       sizes.given.num_replicas, most, routing.num_experts, ranks);
  return {};
}

}  // namespace

std::vector<wanted_point> all_points(const bench_ep_options& o, device_kind device,
                                     const recorded_routing* recorded) {
  std::vector<wanted_point> points;
  for (wanted_point p : all_sizes(o, recorded)) {
    const std::string why_none = why_not_given(p, o.ranks);
    p.begins_sizes = true;
    for (const ep_config& config : configs_of(o, p.config, device)) {
      p.config = config;
      const std::string of_layout = why_left_out(config, o.ranks);
      p.why_not = why_none.empty() ? of_layout : why_none;
      points.push_back(p);
      p.begins_sizes = false;
    }
  }
  const auto is_served = [](const wanted_point& p) { return p.why_not.empty(); };
  if (!points.empty() && std::none_of(points.begin(), points.end(), is_served)) {
    require_served(points[0].config, o.ranks, bench_words);
    throw invalid_argument{points[0].why_not};
  }
  return points;
}

}  // namespace baton::cli
