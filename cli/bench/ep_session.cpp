#include "cli/bench/ep_session.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/stored_rows.hpp"
#include "baton/quantise.hpp"
#include "cli/bench/on_cores.hpp"

namespace baton::cli {
namespace {

memory_use use_for(const char* purpose) {
  return {purpose, "use fewer --tokens or a smaller --hidden"};
}

std::size_t index(int i) {
  return static_cast<std::size_t>(i);
}

/// What widen_row() reads of the first `used` rows, copied to the host.
struct rows_on_host {
  std::vector<std::byte> values, scales;
  std::vector<std::int32_t> token_rows;
  received_tokens rows;

  rows_on_host(const world& w, const received_tokens& in, std::size_t used) : rows{in} {
    const auto bytes = [&w](const void* from, std::size_t size) {
      return to_host(w, static_cast<const std::byte*>(from), size);
    };
    const format_facts facts = facts_of(in.format);
    if (in.token_rows != nullptr) {
      token_rows = to_host(w, in.token_rows, used);
      values = bytes(in.tokens, index(in.max_token_rows) * index(in.row_bytes));
      if (in.scales != nullptr)
        rows.scales = values.data() +
                      (static_cast<const std::byte*>(in.scales) - static_cast<const std::byte*>(in.tokens));
      rows.token_rows = token_rows.data();
    } else {
      const scale_places places{in.scales_layout, in.max_rows, facts.row_scales(in.hidden)};
      values = bytes(in.tokens, used * index(facts.row_bytes(in.hidden)));
      if (in.scales != nullptr)
        scales = bytes(in.scales, static_cast<std::size_t>(places.count() * facts.scale_bytes));
      rows.scales = scales.data();
    }
    rows.tokens = values.data();
  }
};

}  // namespace

std::span<const ep_step> steps_of(ep_form form) {
  switch (form) {
    case ep_form::split:
      return split_steps;
    case ep_form::fused:
      return fused_steps;
    case ep_form::split_layer:
      return split_layer_steps;
    case ep_form::fused_layer:
      return fused_layer_steps;
    default:
      return experts_alone;
  }
}

const char* name(ep_step step) {
  constexpr const char* names[] = {"dispatch_async", "dispatch_wait", "combine_async", "combine_wait",
                                   "dispatch",       "combine",       "experts"};
  return names[static_cast<std::size_t>(step)];
}

std::string why_not_fused(std::span<const world> worlds) {
  for (const world& w : worlds)
    for (const world& other : worlds.first(static_cast<std::size_t>(w.rank())))
      if (w.device() == device_kind::cuda && other.device_index() == w.device_index())
        return fmt::format("ranks {} and {} share GPU {}", other.rank(), w.rank(), w.device_index());
  return {};
}

ep_session::ep_session(std::span<const world> worlds, const ep_config& config, const ep_rounds& given)
    : worlds_{worlds},
      config_{config},
      given_{given},
      communicators_{expert_parallel::create_all(worlds, config)},
      ranks_(worlds.size()) {
  for (int s = 0; s < given.num_sets; ++s) sets_.push_back(make_set(s));
  const std::size_t values = index(config_.num_max_tokens_per_rank) * index(config_.hidden);
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    ranks_[r].output = {worlds_[r], values, use_for("combined tokens")};
    ranks_[r].sums = {worlds_[r], values, use_for("combined tokens")};
  }
}

ep_session::input_set ep_session::make_set(int number) const {
  input_set set{{}, {}, {config_, num_ranks()}};
  set.host.resize(worlds_.size());
  const routing_case routing = given_.routing_of(config_, num_ranks());
  const std::uint64_t seed = given_.seed + static_cast<std::uint64_t>(number) * 1'000'003;
  on_every_rank(worlds_, [&](int r) {
    const std::uint64_t own = seed * 8191 + static_cast<std::uint64_t>(r);
    set.host[index(r)] =
        random_inputs(config_, config_.num_max_tokens_per_rank, own, router_of(routing, number));
    if (given_.forms.shared_output)
      set.host[index(r)].shared_output = random_rows(config_, config_.num_max_tokens_per_rank, ~own);
  });
  for (int r = 0; r < num_ranks(); ++r) set.device.push_back(on_device_of(r, set.host[index(r)]));
  if (given_.num_replicas > 0) replicate(set, past_loads(routing, number));
  for (int r = 0; r < num_ranks(); ++r) set.moved.count(r, set.host[index(r)].topk_idx);
  return set;
}

/// From here on the host's ids are of physical experts, as the device's will be where they are read.
void ep_session::replicate(input_set& set, std::span<const std::int64_t> loads) const {
  const expert_placement placement = place_experts(loads, num_ranks(), config_.num_experts);
  for (int r = 0; r < num_ranks(); ++r) {
    set.device[index(r)].replicas = {worlds_[index(r)], placement};
    std::vector<std::int32_t>& ids = set.host[index(r)].topk_idx;
    ids = physical_ids(placement, ids, config_.top_k, r);
  }
}

ep_session::on_device ep_session::on_device_of(int rank, const rank_inputs& host) const {
  const world& w = worlds_[index(rank)];
  const memory_use use = use_for("inputs of the benchmark");
  on_device in{
      {w, host.tokens, use}, {w, host.topk_idx, use}, {w, host.topk_weights, use}, {}, {}, {}, {}, {}};
  if (given_.forms.shared_output) in.shared_output = {w, host.shared_output, use};
  if (given_.forms.wide_ids)
    in.wide_ids = {w, std::vector<std::int64_t>(host.topk_idx.begin(), host.topk_idx.end()), use};
  const format_facts facts = facts_of(config_.format);
  if (!given_.forms.quantised || facts.scale_bytes == 0) return in;
  const std::size_t tokens = index(config_.num_max_tokens_per_rank);
  in.quantised = {w, tokens * index(facts.row_bytes(config_.hidden)), use};
  in.row_scales = {w, tokens * index(facts.row_scales(config_.hidden) * facts.scale_bytes), use};
  quantise(w, in.tokens.data(), config_.hidden, {.max_rows = config_.num_max_tokens_per_rank},
           {.format = config_.format, .values = in.quantised.data(), .scales = in.row_scales.data()});
  w.synchronize();
  return in;
}

dispatch_input ep_session::input_of(int rank, int set) const {
  const on_device& in = sets_[index(set)].device[index(rank)];
  dispatch_input all{.tokens = in.tokens.data(),
                     .topk_idx = in.topk_idx.data(),
                     .topk_weights = in.topk_weights.data(),
                     .num_tokens = config_.num_max_tokens_per_rank,
                     .replicas = in.replicas.map()};
  if (in.wide_ids.size() > 0) all.topk_idx = in.wide_ids.data();
  if (in.quantised.size() > 0) all.tokens = quantised_tokens{in.quantised.data(), in.row_scales.data()};
  return all;
}

const bfloat16* ep_session::expert_output_of(int rank) const {
  const rank_buffers& own = ranks_[index(rank)];
  if (experts_ != nullptr) return experts_->output(rank);
  return sends_back() ? static_cast<const bfloat16*>(own.received.tokens) : own.expert_output.data();
}

combine_input ep_session::combine_input_of(int rank, int set) const {
  combine_input in{.expert_output = expert_output_of(rank)};
  if (given_.forms.shared_output)
    in.shared_output = sets_[index(set)].device[index(rank)].shared_output.data();
  return in;
}

void ep_session::enqueue(ep_step step, int rank, int set, stream_ref stream) {
  expert_parallel& communicator = communicators_[index(rank)];
  rank_buffers& own = ranks_[index(rank)];
  switch (step) {
    case ep_step::dispatch_async:
      communicator.dispatch_async(input_of(rank, set), stream);
      break;
    case ep_step::dispatch_wait:
      own.received = communicator.dispatch_wait(stream);
      break;
    case ep_step::combine_async:
      communicator.combine_async(combine_input_of(rank, set), stream);
      break;
    case ep_step::combine_wait:
      if (as_sums_)
        communicator.combine_wait(nullptr, own.sums.data(), stream);
      else
        communicator.combine_wait(nullptr, own.output.data(), stream);
      break;
    case ep_step::experts:
      experts_->enqueue(rank, own.received, stream);
      break;
    case ep_step::dispatch:
      own.received = communicator.dispatch(input_of(rank, set), stream);
      break;
    case ep_step::combine:
      if (as_sums_)
        communicator.combine(combine_input_of(rank, set), own.sums.data(), stream);
      else
        communicator.combine(combine_input_of(rank, set), own.output.data(), stream);
      break;
  }
}

void ep_session::poison(int rank, stream_ref stream) {
  ranks_[index(rank)].output.fill_async(0xff, stream);
  if (as_sums_) ranks_[index(rank)].sums.fill_async(0xff, stream);
}

void ep_session::synchronize() const {
  for (const world& rank : worlds_) rank.synchronize();
}

/// What an expert that changes nothing returns: value times scale, as bf16.
void ep_session::fill_expert_output(int rank) {
  const world& w = worlds_[index(rank)];
  rank_buffers& own = ranks_[index(rank)];
  const received_tokens& in = own.received;
  const std::size_t hidden = index(config_.hidden);
  if (own.expert_output.size() == 0)
    own.expert_output = {w, index(in.max_rows) * hidden, use_for("expert outputs")};
  const auto offsets = to_host(w, in.row_offsets, index(in.num_local_experts));
  const auto counts = to_host(w, in.row_counts, index(in.num_local_experts));
  std::size_t used = 0;
  for (std::size_t e = 0; e < counts.size(); ++e) used = std::max(used, index(offsets[e] + counts[e]));
  const rows_on_host on_host{w, in, used};
  std::vector<bfloat16> out(used * hidden);
  on_cores(used, worlds_.size(), [&](std::size_t begin, std::size_t end) {
    std::vector<float> row(hidden);
    for (std::size_t r = begin; r < end; ++r) {
      widen_row(on_host.rows, r, row.data());
      std::transform(row.begin(), row.end(), out.begin() + static_cast<std::ptrdiff_t>(r * hidden),
                     [](float v) { return bfloat16{v}; });
    }
  });
  own.expert_output.copy_from_async(out);
  w.synchronize();
}

void ep_session::run_round(int set, ep_form form) {
  for (int r = 0; r < num_ranks(); ++r) poison(r, {});
  for (const ep_step step : steps_of(form)) {
    for (int r = 0; r < num_ranks(); ++r) enqueue(step, r, set, {});
    synchronize();
    const bool received = step == ep_step::dispatch_wait || step == ep_step::dispatch;
    if (received && experts_ == nullptr && !sends_back())
      on_every_rank(worlds_, [&](int r) { fill_expert_output(r); });
  }
  for (expert_parallel& communicator : communicators_) communicator.check();
}

comparison ep_session::verify(int set, ep_form form) {
  for (const bool sums : {true, false}) {
    as_sums_ = sums;
    run_round(set, form);
  }
  std::vector<comparison> each(ranks_.size());
  std::vector<std::vector<float>> sums;
  std::vector<std::vector<bfloat16>> outputs;
  for (const rank_buffers& own : ranks_) {
    sums.push_back(own.sums.to_host());
    outputs.push_back(own.output.to_host());
  }
  on_every_rank(worlds_, [&](int r) {
    comparison& c = each[index(r)];
    c = compare_identity(config_, {r, num_ranks()}, sets_[index(set)].host[index(r)], sums[index(r)]);
    for (std::size_t i = 0; i < outputs[index(r)].size(); ++i)
      if (outputs[index(r)][i] != bfloat16{sums[index(r)][i]}) ++c.wrong;
  });
  comparison all;
  for (const comparison& c : each) all.add(c);
  return all;
}

}  // namespace baton::cli
