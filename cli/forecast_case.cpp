#include "cli/forecast_case.hpp"

#include <span>
#include <vector>

#include "baton/error.hpp"
#include "cli/config_words.hpp"

namespace baton::cli {
namespace {

routing_case routing_asked(const forecast_case& c) {
  return {.kind = c.routing,
          .num_experts = c.asked.config.num_experts,
          .top_k = c.asked.config.top_k,
          .num_ranks = c.asked.ranks,
          .seed = c.seed};
}

forecast::choices_of_ranks choices_of(const forecast_case& c) {
  const auto top_k = static_cast<std::size_t>(c.asked.config.top_k);
  return
      [route = router_of(routing_asked(c), 0), seed = c.seed, top_k](int rank, std::span<std::int32_t> ids) {
        random_bits seeds{seed ^ (static_cast<std::uint64_t>(rank) << 32)};
        random_bits random{seeds.next()};
        std::vector<float> weights(top_k);
        for (std::size_t at = 0; at < ids.size(); at += top_k) route(random, ids.subspan(at, top_k), weights);
      };
}

}  // namespace

bool has_kernels(const forecast::question& asked) {
  return baton::why_not(asked.config, asked.ranks).empty();
}

std::string transfer_of(const forecast::question& asked) {
  if (asked.per_expert()) return "";
  switch (forecast::transfer_in_group(asked)) {
    case ep_transfer::chunks:
      return "chunks";
    case ep_transfer::flags:
      return "flags";
    default:
      return "lines";
  }
}

void require_served(const forecast_case& c) {
  require_none(why_not(c.asked), forecast_words);
  require_none(why_not(routing_asked(c)), forecast_words);
}

forecast::round_forecast forecast_of(const forecast_case& c) {
  require_served(c);
  return forecast_round(c.asked, choices_of(c));
}

}  // namespace baton::cli
