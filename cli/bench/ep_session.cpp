#include "cli/bench/ep_session.hpp"

#include <algorithm>
#include <array>

#include "runtime/on_every_rank.hpp"

namespace baton::cli {
namespace {

constexpr const char* knob = "use fewer --tokens or a smaller --hidden";

std::size_t index(int i) {
  return static_cast<std::size_t>(i);
}

template <class T>
std::vector<T> download(const world& rank, const T* from, std::size_t count) {
  std::vector<T> to(count);
  copy_async(rank, to.data(), from, count * sizeof(T), {});
  rank.synchronize();
  return to;
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
    ranks_[r].output = device_buffer{worlds_[r], output_bytes(), "combined tokens", knob};
}

std::size_t ep_session::output_bytes() const {
  return index(config_.num_max_tokens_per_rank) * index(config_.hidden) * sizeof(float);
}

ep_session::input_set ep_session::make_set(std::uint64_t seed) const {
  input_set set;
  set.host.resize(worlds_.size());
  on_every_rank(worlds_, [&](int r) {
    const std::uint64_t own = seed * 8191 + static_cast<std::uint64_t>(r);
    set.host[index(r)] = random_inputs(config_, config_.num_max_tokens_per_rank, own);
  });
  for (std::size_t r = 0; r < worlds_.size(); ++r) set.device.push_back(upload(worlds_[r], set.host[r]));
  set.moved = traffic_of(config_, set.host);
  return set;
}

ep_session::on_device ep_session::upload(const world& rank, const rank_inputs& from) const {
  const auto put = [&](const auto& values) {
    const std::size_t bytes = values.size() * sizeof(values[0]);
    device_buffer buffer{rank, bytes, "inputs of the benchmark", knob};
    copy_async(rank, buffer.data(), values.data(), bytes, {});
    return buffer;
  };
  on_device to{put(from.tokens), put(from.topk_idx), put(from.topk_weights)};
  rank.synchronize();
  return to;
}

void ep_session::enqueue(ep_step step, int rank, int set, stream_ref stream) {
  expert_parallel& communicator = communicators_[index(rank)];
  rank_buffers& own = ranks_[index(rank)];
  const on_device& in = sets_[index(set)].device[index(rank)];
  switch (step) {
    case ep_step::dispatch_async:
      communicator.dispatch_async(in.tokens.as<bfloat16>(), in.topk_idx.as<std::int32_t>(),
                                  config_.num_max_tokens_per_rank, stream);
      break;
    case ep_step::dispatch_wait:
      own.received = communicator.dispatch_wait(stream);
      break;
    case ep_step::combine_async:
      communicator.combine_async(config_.format == token_format::bf16
                                     ? static_cast<const bfloat16*>(own.received.tokens)
                                     : own.expert_output.as<bfloat16>(),
                                 stream);
      break;
    case ep_step::combine_wait:
      communicator.combine_wait(in.topk_weights.as<float>(), own.output.as<float>(), stream);
      break;
  }
}

void ep_session::poison(int rank, stream_ref stream) {
  fill_async(worlds_[index(rank)], ranks_[index(rank)].output.data(), 0xff, output_bytes(), stream);
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
  if (own.expert_output.bytes() == 0)
    own.expert_output = device_buffer{w, rows * hidden * sizeof(bfloat16), "expert outputs", knob};
  const auto offsets = download(w, in.row_offsets, index(in.num_local_experts));
  const auto counts = download(w, in.row_counts, index(in.num_local_experts));
  std::size_t used = 0;
  for (std::size_t e = 0; e < counts.size(); ++e) used = std::max(used, index(offsets[e] + counts[e]));
  const auto values = download(w, static_cast<const std::uint8_t*>(in.tokens), used * hidden);
  const auto scales = download(w, in.scales, hidden / 128 * rows);
  std::array<float, 256> widened{};
  for (std::size_t b = 0; b < 256; ++b)
    widened[b] = static_cast<float>(float8_e4m3::from_bits(static_cast<std::uint8_t>(b)));
  std::vector<bfloat16> out(values.size());
  for (std::size_t row = 0; row < used; ++row)
    for (std::size_t h = 0; h < hidden; ++h)
      out[row * hidden + h] = bfloat16{widened[values[row * hidden + h]] * scales[h / 128 * rows + row]};
  copy_async(w, own.expert_output.data(), out.data(), out.size() * sizeof(bfloat16), {});
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
    outputs.push_back(download(worlds_[r], ranks_[r].output.as<float>(), output_bytes() / sizeof(float)));
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
