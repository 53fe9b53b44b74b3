#include "cli/exchange_moe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "cli/config_words.hpp"
#include "runtime/device_memory.hpp"

namespace baton::cli {
namespace {

constexpr const char* weights_knob = "use more --ranks, so that each holds fewer experts";
constexpr const char* staging_knob = "lower --max-tokens-per-rank";

std::size_t size(int n) {
  return static_cast<std::size_t>(n);
}

ep_config communicator_config(const model::model_config& model, const exchange_options& options) {
  ep_config config;
  config.num_experts = model.num_experts;
  config.top_k = model.num_experts_per_tok;
  config.hidden = model.hidden_size;
  config.num_max_tokens_per_rank = options.max_tokens_per_rank;
  config.format = options.format;
  config.arrival = options.arrival;
  require_served(config, options.num_ranks, exchange_words);
  return config;
}

/// Host memory to a new buffer of the rank's device; `values` must live until the rank has synchronised.
device_buffer upload(const world& rank, const std::vector<bfloat16>& values, const std::string& purpose) {
  const std::size_t bytes = values.size() * sizeof(bfloat16);
  device_buffer buffer{rank, bytes, purpose, weights_knob};
  copy_async(rank, buffer.data(), values.data(), bytes, {});
  return buffer;
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
    device_buffer gate, up, down;
    expert_weights weights;
  };
  std::map<int, layer_experts> layers;
  device_buffer tokens, topk_idx, topk_weights;  // inputs of one round
  device_buffer expert_output, scratch, output;
  received_tokens received;
};

/// The tokens of one rank that take part in a round.
struct exchange_moe::chunk {
  int first = 0;
  int count = 0;
};

exchange_moe::exchange_moe(const model::checkpoint& weights, std::span<const int> layers,
                           const exchange_options& options)
    : exchange_moe{
          weights.config(),
          [&weights](int layer, int first, int count) { return weights.experts(layer, first, count); },
          layers, options} {}

exchange_moe::exchange_moe(const model::model_config& config, const expert_source& experts,
                           std::span<const int> layers, const exchange_options& options)
    : config_{communicator_config(config, options)},
      worlds_{world::local(options.num_ranks, options.device)},
      communicators_{expert_parallel::create_all(worlds_, config_)},
      ranks_(worlds_.size()),
      statistics_{config_, options.num_ranks, config.num_hidden_layers} {
  load_experts(experts, layers);
  make_staging();
}

exchange_moe::~exchange_moe() = default;

void exchange_moe::load_experts(const expert_source& experts, std::span<const int> layers) {
  for (const int layer : layers) {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const expert_range mine = communicators_[r].local_experts();
      const model::expert_matrices host = experts(layer, mine.first, mine.count);
      const std::string purpose = fmt::format("experts of layer {} on rank {}", layer, r);
      rank_state::layer_experts loaded;
      loaded.gate = upload(worlds_[r], host.gate, purpose);
      loaded.up = upload(worlds_[r], host.up, purpose);
      loaded.down = upload(worlds_[r], host.down, purpose);
      loaded.weights = {loaded.gate.as<bfloat16>(),
                        loaded.up.as<bfloat16>(),
                        loaded.down.as<bfloat16>(),
                        mine.count,
                        host.hidden,
                        host.intermediate};
      worlds_[r].synchronize();
      ranks_[r].layers.insert_or_assign(layer, std::move(loaded));
    }
  }
}

// An empty round tells how many rows can arrive, and that all ranks reach each other.
void exchange_moe::make_staging() {
  const std::size_t tokens = size(config_.num_max_tokens_per_rank), hidden = size(config_.hidden);
  dispatch(std::vector<chunk>(ranks_.size()));
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const auto buffer = [&](std::size_t bytes) {
      return device_buffer{worlds_[r], bytes, fmt::format("token buffers of rank {}", r), staging_knob};
    };
    rank_state& rank = ranks_[r];
    rank.tokens = buffer(tokens * hidden * sizeof(bfloat16));
    rank.topk_idx = buffer(tokens * size(config_.top_k) * sizeof(std::int32_t));
    rank.topk_weights = buffer(tokens * size(config_.top_k) * sizeof(float));
    rank.output = buffer(tokens * hidden * sizeof(float));
    rank.expert_output = buffer(size(rank.received.max_rows) * hidden * sizeof(bfloat16));
    std::size_t scratch = 0;
    for (const auto& [layer, experts] : rank.layers) {
      const device_kind device = worlds_[r].device();
      scratch = std::max(scratch, expert_mlp_scratch_bytes(experts.weights, rank.received.max_rows, device));
    }
    rank.scratch = buffer(scratch);
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
    phase(seconds.dispatch, [&] { dispatch(chunks); });
    phase(seconds.experts, [&] { run_experts(layer); });
    phase(seconds.combine, [&] { combine(); });
    phase(seconds.copies, [&] { copy_out(chunks, outputs); });
    for (expert_parallel& communicator : communicators_) communicator.check();
    ++statistics_.rounds;
  }
  statistics_.count(layer, ranks);
}

void exchange_moe::copy_in(std::span<const chunk> chunks, std::span<const model::routed_tokens> ranks) {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const std::size_t first = size(chunks[r].first), count = size(chunks[r].count);
    if (count == 0) continue;
    const auto put = [&](const device_buffer& to, const auto& from, std::size_t width) {
      copy_async(worlds_[r], to.data(), from.data() + first * width, count * width * sizeof(from[0]), {});
    };
    put(ranks_[r].tokens, ranks[r].hidden, size(config_.hidden));
    put(ranks_[r].topk_idx, ranks[r].topk_idx, size(config_.top_k));
    put(ranks_[r].topk_weights, ranks[r].topk_weights, size(config_.top_k));
  }
}

// All ranks send before any rank waits: they share this thread, and may share a device.
void exchange_moe::dispatch(std::span<const chunk> chunks) {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    communicators_[r].dispatch_async(ranks_[r].tokens.as<bfloat16>(), ranks_[r].topk_idx.as<std::int32_t>(),
                                     chunks[r].count);
  }
  for (std::size_t r = 0; r < ranks_.size(); ++r) ranks_[r].received = communicators_[r].dispatch_wait();
}

void exchange_moe::run_experts(int layer) {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    rank_state& rank = ranks_[r];
    expert_mlp(worlds_[r], rank.layers.at(layer).weights, rank.received, rank.expert_output.as<bfloat16>(),
               rank.scratch.data());
  }
}

void exchange_moe::combine() {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    communicators_[r].combine_async(ranks_[r].expert_output.as<bfloat16>());
  }
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    communicators_[r].combine_wait(ranks_[r].topk_weights.as<float>(), ranks_[r].output.as<float>());
  }
}

void exchange_moe::copy_out(std::span<const chunk> chunks, std::span<std::vector<float>> outputs) {
  const std::size_t hidden = size(config_.hidden);
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (chunks[r].count == 0) continue;
    copy_async(worlds_[r], outputs[r].data() + size(chunks[r].first) * hidden, ranks_[r].output.data(),
               size(chunks[r].count) * hidden * sizeof(float), {});
  }
}

void exchange_moe::synchronize() const {
  for (const world& rank : worlds_) rank.synchronize();
}

std::size_t exchange_moe::device_bytes() const {
  std::size_t sum = worlds_.size() * workspace_bytes(config_, static_cast<int>(worlds_.size())).total();
  for (const rank_state& rank : ranks_) {
    for (const auto& [layer, experts] : rank.layers) {
      sum += experts.gate.bytes() + experts.up.bytes() + experts.down.bytes();
    }
    sum += rank.tokens.bytes() + rank.topk_idx.bytes() + rank.topk_weights.bytes() + rank.output.bytes() +
           rank.expert_output.bytes() + rank.scratch.bytes();
  }
  return sum;
}

}  // namespace baton::cli
