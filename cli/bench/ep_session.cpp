#include "cli/bench/ep_session.hpp"

#include <algorithm>
#include <array>

namespace baton::cli {
namespace {

memory_use use_for(const char* purpose) {
  return {purpose, "use fewer --tokens or a smaller --hidden"};
}

std::size_t index(int i) {
  return static_cast<std::size_t>(i);
}

}  // namespace

const char* name(ep_step step) {
  switch (step) {
    case ep_step::dispatch_async:
      return "dispatch_async";
    case ep_step::dispatch_wait:
      return "dispatch_wait";
    case ep_step::combine_async:
      return "combine_async";
    default:
      return "combine_wait";
  }
}

ep_session::ep_session(std::span<const world> worlds, const ep_config& config, int num_sets,
                       std::uint64_t seed)
    : worlds_{worlds},
      config_{config},
      communicators_{expert_parallel::create_all(worlds, config)},
      ranks_(worlds.size()) {
  for (int s = 0; s < num_sets; ++s)
    sets_.push_back(make_set(seed + static_cast<std::uint64_t>(s) * 1'000'003));
  for (std::size_t r = 0; r < ranks_.size(); ++r)
    ranks_[r].output = {worlds_[r], index(config_.num_max_tokens_per_rank) * index(config_.hidden),
                        use_for("combined tokens")};
}

ep_session::input_set ep_session::make_set(std::uint64_t seed) const {
  input_set set;
  set.host.resize(worlds_.size());
  on_every_rank(worlds_, [&](int r) {
    const std::uint64_t own = seed * 8191 + static_cast<std::uint64_t>(r);
    set.host[index(r)] = random_inputs(config_, config_.num_max_tokens_per_rank, own);
  });
  const memory_use use = use_for("inputs of the benchmark");
  for (std::size_t r = 0; r < worlds_.size(); ++r)
    set.device.push_back({{worlds_[r], set.host[r].tokens, use},
                          {worlds_[r], set.host[r].topk_idx, use},
                          {worlds_[r], set.host[r].topk_weights, use}});
  set.moved = traffic_of(config_, set.host);
  return set;
}

void ep_session::enqueue(ep_step step, int rank, int set, stream_ref stream) {
  expert_parallel& communicator = communicators_[index(rank)];
  rank_buffers& own = ranks_[index(rank)];
  const on_device& in = sets_[index(set)].device[index(rank)];
  switch (step) {
    case ep_step::dispatch_async:
      communicator.dispatch_async(in.tokens.data(), in.topk_idx.data(), config_.num_max_tokens_per_rank,
                                  stream);
      break;
    case ep_step::dispatch_wait:
      own.received = communicator.dispatch_wait(stream);
      break;
    case ep_step::combine_async:
      communicator.combine_async(config_.format == token_format::bf16
                                     ? static_cast<const bfloat16*>(own.received.tokens)
                                     : own.expert_output.data(),
                                 stream);
      break;
    case ep_step::combine_wait:
      communicator.combine_wait(in.topk_weights.data(), own.output.data(), stream);
      break;
  }
}

void ep_session::poison(int rank, stream_ref stream) {
  ranks_[index(rank)].output.fill_async(0xff, stream);
}

void ep_session::synchronize() const {
  for (const world& rank : worlds_) rank.synchronize();
}

/// What an expert that changes nothing returns for e4m3 rows: value times scale, as bf16.
void ep_session::fill_expert_output(int rank) {
  const world& w = worlds_[index(rank)];
  rank_buffers& own = ranks_[index(rank)];
  const received_tokens& in = own.received;
  const std::size_t hidden = index(config_.hidden), rows = index(in.max_rows);
  if (own.expert_output.size() == 0) own.expert_output = {w, rows * hidden, use_for("expert outputs")};
  const auto offsets = to_host(w, in.row_offsets, index(in.num_local_experts));
  const auto counts = to_host(w, in.row_counts, index(in.num_local_experts));
  std::size_t used = 0;
  for (std::size_t e = 0; e < counts.size(); ++e) used = std::max(used, index(offsets[e] + counts[e]));
  const auto values = to_host(w, static_cast<const std::uint8_t*>(in.tokens), used * hidden);
  const auto scales = to_host(w, in.scales, hidden / 128 * rows);
  std::array<float, 256> widened{};
  for (std::size_t b = 0; b < 256; ++b)
    widened[b] = static_cast<float>(float8_e4m3::from_bits(static_cast<std::uint8_t>(b)));
  std::vector<bfloat16> out(values.size());
  for (std::size_t row = 0; row < used; ++row)
    for (std::size_t h = 0; h < hidden; ++h)
      out[row * hidden + h] = bfloat16{widened[values[row * hidden + h]] * scales[h / 128 * rows + row]};
  own.expert_output.copy_from_async(out);
  w.synchronize();
}

comparison ep_session::verify(int set) {
  for (int r = 0; r < num_ranks(); ++r) poison(r, {});
  for (const ep_step step : ep_steps) {
    for (int r = 0; r < num_ranks(); ++r) enqueue(step, r, set, {});
    synchronize();
    if (step == ep_step::dispatch_wait && config_.format == token_format::blockwise_fp8)
      for (int r = 0; r < num_ranks(); ++r) fill_expert_output(r);
  }
  std::vector<std::vector<float>> outputs;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    outputs.push_back(ranks_[r].output.to_host());
    communicators_[r].check();
  }
  std::vector<comparison> each(ranks_.size());
  on_every_rank(worlds_, [&](int r) {
    each[index(r)] = compare_identity(config_, sets_[index(set)].host[index(r)], outputs[index(r)]);
  });
  comparison all;
  for (const comparison& c : each) {
    all.values += c.values;
    all.wrong += c.wrong;
    if (!(c.worst_error <= all.worst_error)) all.worst_error = c.worst_error;
  }
  return all;
}

}  // namespace baton::cli
