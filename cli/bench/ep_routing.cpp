#include "cli/bench/ep_routing.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "baton/expert_parallel.hpp"
#include "cli/bench/weighted_choice.hpp"

namespace baton::cli {
namespace {

constexpr int tokens_of_the_past = 1 << 16;

/// Distinct ids, each drawn until it is none of those before it.
template <class Draw>
void draw_distinct(std::span<std::int32_t> ids, Draw draw) {
  for (std::size_t k = 0; k < ids.size();) {
    ids[k] = draw();
    const auto earlier = ids.first(k);
    if (std::find(earlier.begin(), earlier.end(), ids[k]) == earlier.end()) ++k;
  }
}

void draw_weights(random_bits& random, std::span<float> weights) {
  float sum = 0;
  for (float& w : weights) sum += w = random_bits::unit(random.next()) + 0x1p-6f;
  for (float& w : weights) w /= sum;
}

token_router uniform_below(int experts) {
  return [experts](random_bits& random, std::span<std::int32_t> ids, std::span<float> weights) {
    draw_distinct(ids, [&] { return random.below(experts); });
    draw_weights(random, weights);
  };
}

token_router zipf_over(int experts, std::uint64_t seed) {
  return [by_popularity = shuffled(experts, seed), nth = zipf_choice(experts)](
             random_bits& random, std::span<std::int32_t> ids, std::span<float> weights) {
    draw_distinct(ids, [&] { return by_popularity[static_cast<std::size_t>(nth(random))]; });
    draw_weights(random, weights);
  };
}

token_router next_of(const recorded_routing::layer& layer) {
  return [&layer, token = std::size_t{0}, begun = false](random_bits& random, std::span<std::int32_t> ids,
                                                         std::span<float> weights) mutable {
    const std::size_t tokens = layer.ids.size() / ids.size();
    if (!begun) token = static_cast<std::size_t>(random.below(static_cast<int>(tokens)));
    begun = true;
    std::copy_n(&layer.ids[token * ids.size()], ids.size(), ids.begin());
    std::copy_n(&layer.weights[token * ids.size()], ids.size(), weights.begin());
    token = (token + 1) % tokens;
  };
}

std::size_t layer_of(const routing_case& c, int set) {
  return static_cast<std::size_t>(set) % c.recorded->layers.size();
}

}  // namespace

const char* name(ep_routing routing) {
  constexpr const char* names[] = {"uniform", "zipf", "trace", "all-to-one"};
  return names[static_cast<std::size_t>(routing)];
}

std::string why_not(const routing_case& c) {
  if (c.top_k > c.num_experts)
    return fmt::format(
        "--top-k: {} is more than the {} experts; the benchmark gives a token distinct experts", c.top_k,
        c.num_experts);
  if (c.kind == ep_routing::trace && c.recorded == nullptr)
    return "--routing trace: no recording; name its file with --trace";
  if (c.kind == ep_routing::trace &&
      (c.recorded->num_experts != c.num_experts || c.recorded->top_k != c.top_k))
    return fmt::format("--routing trace: top-{} of {} experts was recorded, asked for is top-{} of {}",
                       c.recorded->top_k, c.recorded->num_experts, c.top_k, c.num_experts);
  const int of_rank_0 = experts_of_rank(c.num_experts, c.num_ranks, 0).count;
  if (c.kind == ep_routing::all_to_one && c.top_k > of_rank_0)
    return fmt::format("--routing all-to-one: rank 0 has {} experts, fewer than the {} of a token", of_rank_0,
                       c.top_k);
  return {};
}

token_router router_of(const routing_case& c, int set) {
  if (c.kind == ep_routing::trace) return next_of(c.recorded->layers[layer_of(c, set)]);
  if (c.kind == ep_routing::zipf) return zipf_over(c.num_experts, c.seed);
  if (c.kind == ep_routing::all_to_one)
    return uniform_below(experts_of_rank(c.num_experts, c.num_ranks, 0).count);
  return uniform_below(c.num_experts);
}

std::vector<std::int64_t> loads_of(const recorded_routing& recorded, std::size_t layer) {
  std::vector<std::int64_t> loads(static_cast<std::size_t>(recorded.num_experts), 0);
  for (const std::int32_t id : recorded.layers.at(layer).ids) ++loads[static_cast<std::size_t>(id)];
  return loads;
}

std::vector<std::int64_t> past_loads(const routing_case& c, int set) {
  if (c.kind == ep_routing::trace) return loads_of(*c.recorded, layer_of(c, set));
  std::vector<std::int64_t> loads(static_cast<std::size_t>(c.num_experts), 0);
  const token_router route = router_of(c, set);
  random_bits past{~c.seed};
  std::vector<std::int32_t> ids(static_cast<std::size_t>(c.top_k));
  std::vector<float> weights(ids.size());
  for (int t = 0; t < tokens_of_the_past; ++t) {
    route(past, ids, weights);
    for (const std::int32_t id : ids) ++loads[static_cast<std::size_t>(id)];
  }
  return loads;
}

}  // namespace baton::cli
