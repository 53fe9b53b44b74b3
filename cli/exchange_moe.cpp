#include "cli/exchange_moe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "baton/device_buffer.hpp"
#include "cli/bench/ep_replicas.hpp"
#include "cli/config_words.hpp"
#include "cli/model/norm.hpp"

namespace baton::cli {
namespace {

constexpr const char* weights_knob = "use more --ranks, so that each holds fewer experts";
constexpr const char* staging_knob = "lower --max-tokens-per-rank";

using model::size;

ep_config communicator_config(const model::model_config& model, const exchange_options& options) {
  ep_config config;
  config.num_experts = model.num_experts + options.num_replicas;
  config.top_k = model.num_experts_per_tok;
  config.hidden = model.hidden_size;
  config.num_max_tokens_per_rank = options.max_tokens_per_rank;
  config.format = options.format;
  config.combine_format = options.combine_format;
  config.arrival = options.arrival;
  config.layout = options.layout;
  config.transfer = options.transfer;
  config.rows = options.rows;
  config.p2p_group_size = options.p2p_group_size;
  config.levels = options.levels;
  require_served(config, options.num_ranks, exchange_words);
  return config;
}

expert_source experts_in(const model::checkpoint& weights) {
  return [&weights](int layer, int first, int count) { return weights.experts(layer, first, count); };
}

bool all_are_here(std::span<const world> ranks) {
  return static_cast<int>(ranks.size()) == ranks[0].size();
}

/// Of all ranks, or of the only one here.
std::vector<expert_parallel> communicators_of(std::span<const world> here, const ep_config& config) {
  if (all_are_here(here)) return expert_parallel::create_all(here, config);
  std::vector<expert_parallel> one;
  one.push_back(expert_parallel::create(here[0], config));
  return one;
}

/// Adds the time from its making to its end to a sum.
class timed {
 public:
  explicit timed(double& sum) : sum_{sum}, start_{std::chrono::steady_clock::now()} {}
  ~timed() { sum_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
  timed(const timed&) = delete;
  timed& operator=(const timed&) = delete;

 private:
  double& sum_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace

struct exchange_moe::rank_state {
  struct layer_experts {
    device_buffer<std::byte> gate, up, down;
    device_buffer<float> gate_scales, up_scales, down_scales;  // of FP8
    expert_weights weights;

    layer_experts(const world& rank, const model::expert_matrices& host, const memory_use& use);
    std::size_t bytes() const {
      return gate.size_bytes() + up.size_bytes() + down.size_bytes() + gate_scales.size_bytes() +
             up_scales.size_bytes() + down_scales.size_bytes();
    }
  };
  std::map<int, layer_experts> layers;
  device_buffer<bfloat16> tokens;  // inputs of one round
  device_buffer<std::int32_t> topk_idx;
  device_buffer<float> topk_weights;
  device_buffer<bfloat16> expert_output;
  device_buffer<std::byte> scratch;
  device_buffer<float> output;
  received_tokens received;
};

exchange_moe::rank_state::layer_experts::layer_experts(const world& rank, const model::expert_matrices& host,
                                                       const memory_use& use) {
  const auto copy = [&](const auto& values) {
    return device_buffer<std::byte>{rank, std::as_bytes(std::span{values}), use};
  };
  weights.num_local_experts = host.num_experts;
  weights.hidden = host.hidden;
  weights.intermediate = host.intermediate;
  weights.format = host.format;
  if (host.format == weight_format::bf16) {
    gate = copy(host.gate);
    up = copy(host.up);
    down = copy(host.down);
  } else {
    gate = copy(host.fp8.gate);
    up = copy(host.fp8.up);
    down = copy(host.fp8.down);
    gate_scales = {rank, host.fp8.gate_scales, use};
    up_scales = {rank, host.fp8.up_scales, use};
    down_scales = {rank, host.fp8.down_scales, use};
    weights.gate_scales = gate_scales.data();
    weights.up_scales = up_scales.data();
    weights.down_scales = down_scales.data();
  }
  weights.gate = gate.data();
  weights.up = up.data();
  weights.down = down.data();
}

/// The tokens of one rank that take part in a round.
struct exchange_moe::chunk {
  int first = 0;
  int count = 0;
};

struct exchange_moe::layer_replicas {
  expert_placement placement;
  std::vector<replicas_on_device> of_ranks;
};

model::expert_matrices gathered(const expert_source& experts, int layer, std::span<const std::int32_t> ids) {
  model::expert_matrices all;
  const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  for (const std::int32_t id : ids) {
    const model::expert_matrices one = experts(layer, id, 1);
    all.hidden = one.hidden;
    all.intermediate = one.intermediate;
    append(all.gate, one.gate);
    append(all.up, one.up);
    append(all.down, one.down);
    all.format = one.format;
    append(all.fp8.gate, one.fp8.gate);
    append(all.fp8.up, one.fp8.up);
    append(all.fp8.down, one.fp8.down);
    append(all.fp8.gate_scales, one.fp8.gate_scales);
    append(all.fp8.up_scales, one.fp8.up_scales);
    append(all.fp8.down_scales, one.fp8.down_scales);
    ++all.num_experts;
  }
  return all;
}

exchange_moe::exchange_moe(const model::checkpoint& weights, std::span<const int> layers,
                           const exchange_options& options)
    : exchange_moe{weights.config(), experts_in(weights), layers, options} {}

exchange_moe::exchange_moe(const model::checkpoint& weights, std::span<const int> layers,
                           const exchange_options& options, const world& rank)
    : exchange_moe{weights.config(), experts_in(weights), layers, options, std::vector{rank}} {}

exchange_moe::exchange_moe(const model::model_config& config, const expert_source& experts,
                           std::span<const int> layers, const exchange_options& options)
    : exchange_moe{config, experts, layers, options, world::local(options.num_ranks, options.device)} {}

exchange_moe::exchange_moe(const model::model_config& config, const expert_source& experts,
                           std::span<const int> layers, const exchange_options& options,
                           std::vector<world> ranks)
    : config_{communicator_config(config, options)},
      worlds_{std::move(ranks)},
      communicators_{communicators_of(worlds_, config_)},
      ranks_(worlds_.size()),
      statistics_{config_, options.num_ranks, config.num_hidden_layers} {
  if (options.num_replicas > 0) place_replicas(layers, options);
  load_experts(experts, layers);
  make_staging();
}

exchange_moe::~exchange_moe() = default;

void exchange_moe::place_replicas(std::span<const int> layers, const exchange_options& options) {
  const std::vector<std::int64_t> alike(size(config_.num_experts - options.num_replicas), 1);
  replicas_.resize(size(statistics_.num_layers()));
  for (const int layer : layers) {
    const auto& loads = options.past_loads.empty() ? alike : options.past_loads.at(size(layer));
    layer_replicas own{place_experts(loads, worlds_[0].size(), config_.num_experts), {}};
    for (const world& rank : worlds_) own.of_ranks.emplace_back(rank, own.placement);
    replicas_.at(size(layer)) = std::move(own);
  }
}

weight_format exchange_moe::weights_format() const {
  return ranks_[0].layers.empty() ? weight_format::bf16 : ranks_[0].layers.begin()->second.weights.format;
}

const expert_placement* exchange_moe::placement(int layer) const {
  const bool is_placed = size(layer) < replicas_.size() && !replicas_[size(layer)].of_ranks.empty();
  return is_placed ? &replicas_[size(layer)].placement : nullptr;
}

std::vector<std::int32_t> exchange_moe::physical(int layer, int rank,
                                                 std::span<const std::int32_t> topk_idx) const {
  const expert_placement* const map = placement(layer);
  if (map == nullptr) return {topk_idx.begin(), topk_idx.end()};
  std::vector<std::int32_t> ids;
  const std::size_t of_round = size(config_.num_max_tokens_per_rank) * size(config_.top_k);
  for (std::size_t first = 0; first < topk_idx.size(); first += of_round) {
    const auto own = physical_ids(*map, topk_idx.subspan(first, std::min(of_round, topk_idx.size() - first)),
                                  config_.top_k, rank);
    ids.insert(ids.end(), own.begin(), own.end());
  }
  return ids;
}

model::expert_matrices exchange_moe::experts_of(int rank, const expert_source& experts, int layer) const {
  const expert_range mine = communicators_[size(rank)].local_experts();
  const expert_placement* const map = placement(layer);
  return map == nullptr
             ? experts(layer, mine.first, mine.count)
             : gathered(experts, layer,
                        std::span{map->physical_to_logical}.subspan(size(mine.first), size(mine.count)));
}

void exchange_moe::load_experts(const expert_source& experts, std::span<const int> layers) {
  for (const int layer : layers) {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const model::expert_matrices host = experts_of(static_cast<int>(r), experts, layer);
      const memory_use use{fmt::format("experts of layer {} on rank {}", layer, r), weights_knob};
      ranks_[r].layers.insert_or_assign(layer, rank_state::layer_experts{worlds_[r], host, use});
    }
  }
}

// An empty round tells how many rows can arrive, and that all ranks reach each other.
void exchange_moe::make_staging() {
  const std::size_t tokens = size(config_.num_max_tokens_per_rank), hidden = size(config_.hidden);
  const auto use = [](std::size_t r) {
    return memory_use{fmt::format("token buffers of rank {}", r), staging_knob};
  };
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    rank_state& rank = ranks_[r];
    rank.tokens = {worlds_[r], tokens * hidden, use(r)};
    rank.topk_idx = {worlds_[r], tokens * size(config_.top_k), use(r)};
    rank.topk_weights = {worlds_[r], tokens * size(config_.top_k), use(r)};
    rank.output = {worlds_[r], tokens * hidden, use(r)};
  }
  dispatch(std::vector<chunk>(ranks_.size()));
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    rank_state& rank = ranks_[r];
    rank.expert_output = {worlds_[r], size(rank.received.max_rows) * hidden, use(r)};
    std::size_t scratch = 0;
    for (const auto& [layer, experts] : rank.layers) {
      const device_kind device = worlds_[r].device();
      scratch = std::max(scratch, expert_mlp_scratch_bytes(experts.weights, rank.received, device));
    }
    rank.scratch = {worlds_[r], scratch, use(r)};
  }
  combine();
  synchronize();
}

void exchange_moe::check_arguments(int layer, std::span<const model::routed_tokens> ranks,
                                   std::size_t outputs) const {
  if (ranks.size() != ranks_.size() || outputs != ranks_.size()) {
    throw invalid_argument{
        fmt::format("exchange_moe: {} ranks and {} outputs, expected one entry for each of {} ranks",
                    ranks.size(), outputs, ranks_.size())};
  }
  if (!ranks_[0].layers.contains(layer)) {
    throw invalid_argument{fmt::format("exchange_moe: the experts of layer {} were not loaded", layer)};
  }
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const std::size_t tokens = size(ranks[r].tokens), choices = tokens * size(config_.top_k);
    if (!all_are_here(worlds_) && ranks[r].tokens > config_.num_max_tokens_per_rank)
      throw invalid_argument{
          fmt::format("exchange_moe: {} tokens, expected one round of {}: ranks elsewhere take one each",
                      ranks[r].tokens, config_.num_max_tokens_per_rank)};
    if (ranks[r].hidden.size() != tokens * size(config_.hidden) || ranks[r].topk_idx.size() != choices ||
        ranks[r].topk_weights.size() != choices) {
      throw invalid_argument{
          fmt::format("exchange_moe: rank {}: {} tokens with {} hidden values, {} ids and {} weights; "
                      "expected {} values and {} ids and weights",
                      r, tokens, ranks[r].hidden.size(), ranks[r].topk_idx.size(),
                      ranks[r].topk_weights.size(), tokens * size(config_.hidden), choices)};
    }
  }
}

void exchange_moe::run(int layer, std::span<const model::routed_tokens> ranks,
                       std::span<std::vector<float>> outputs) {
  check_arguments(layer, ranks, outputs.size());
  int most = 0;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    most = std::max(most, ranks[r].tokens);
    outputs[r].resize(size(ranks[r].tokens) * size(config_.hidden));
  }
  exchange_times& seconds = statistics_.seconds;
  const auto phase = [this](double& sum, auto&& work) {
    const timed clock{sum};
    work();
    synchronize();
  };
  const int limit = config_.num_max_tokens_per_rank;
  for (int first = 0; first < most; first += limit) {
    std::vector<chunk> chunks;
    for (const model::routed_tokens& rank : ranks) {
      chunks.push_back({std::min(first, rank.tokens), std::clamp(rank.tokens - first, 0, limit)});
    }
    phase(seconds.copies, [&] { copy_in(chunks, ranks); });
    phase(seconds.dispatch, [&] { dispatch(chunks, replicas_.empty() ? nullptr : &replicas_[size(layer)]); });
    phase(seconds.experts, [&] { run_experts(layer); });
    phase(seconds.combine, [&] { combine(); });
    phase(seconds.copies, [&] { copy_out(chunks, outputs); });
    for (expert_parallel& communicator : communicators_) communicator.check();
    ++statistics_.rounds;
  }
  count(layer, ranks);
}

void exchange_moe::count(int layer, std::span<const model::routed_tokens> ranks) {
  if (!all_are_here(worlds_)) return;  // what other ranks send is not known here
  if (replicas_.empty()) return statistics_.count(layer, ranks);
  std::vector<model::routed_tokens> as_sent(ranks.size());
  for (std::size_t r = 0; r < ranks.size(); ++r)
    as_sent[r].topk_idx = physical(layer, static_cast<int>(r), ranks[r].topk_idx);
  statistics_.count(layer, as_sent);
}

void exchange_moe::copy_in(std::span<const chunk> chunks, std::span<const model::routed_tokens> ranks) {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const std::size_t first = size(chunks[r].first), count = size(chunks[r].count);
    const auto put = [&](auto& to, const auto& from, std::size_t width) {
      to.copy_from_async(std::span{from}.subspan(first * width, count * width));
    };
    put(ranks_[r].tokens, ranks[r].hidden, size(config_.hidden));
    put(ranks_[r].topk_idx, ranks[r].topk_idx, size(config_.top_k));
    put(ranks_[r].topk_weights, ranks[r].topk_weights, size(config_.top_k));
  }
}

// All ranks send before any rank waits: they share this thread, and may share a device.
void exchange_moe::dispatch(std::span<const chunk> chunks, const layer_replicas* replicas) {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const rank_state& rank = ranks_[r];
    dispatch_input in{.tokens = rank.tokens.data(),
                      .topk_idx = rank.topk_idx.data(),
                      .topk_weights = rank.topk_weights.data(),
                      .num_tokens = chunks[r].count};
    if (replicas != nullptr) in.replicas = replicas->of_ranks[r].map();
    communicators_[r].dispatch_async(in);
  }
  for (std::size_t r = 0; r < ranks_.size(); ++r) ranks_[r].received = communicators_[r].dispatch_wait();
}

void exchange_moe::run_experts(int layer) {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    rank_state& rank = ranks_[r];
    expert_mlp(worlds_[r], rank.layers.at(layer).weights, rank.received, rank.expert_output.data(),
               rank.scratch.data());
  }
}

void exchange_moe::combine() {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    communicators_[r].combine_async(ranks_[r].expert_output.data());
  }
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    communicators_[r].combine_wait(nullptr, ranks_[r].output.data());
  }
}

void exchange_moe::copy_out(std::span<const chunk> chunks, std::span<std::vector<float>> outputs) {
  const std::size_t hidden = size(config_.hidden);
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    ranks_[r].output.copy_to_async(
        std::span{outputs[r]}.subspan(size(chunks[r].first) * hidden, size(chunks[r].count) * hidden));
  }
}

void exchange_moe::synchronize() const {
  for (const world& rank : worlds_) rank.synchronize();
}

std::size_t exchange_moe::device_bytes() const {
  std::size_t sum = worlds_.size() * workspace_bytes(config_, worlds_[0].size()).total();
  for (const rank_state& rank : ranks_) {
    for (const auto& [layer, experts] : rank.layers) {
      sum += experts.bytes();
    }
    sum += rank.tokens.size_bytes() + rank.topk_idx.size_bytes() + rank.topk_weights.size_bytes() +
           rank.output.size_bytes() + rank.expert_output.size_bytes() + rank.scratch.size_bytes();
  }
  return sum;
}

}  // namespace baton::cli
