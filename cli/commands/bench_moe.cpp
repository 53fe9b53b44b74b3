#include "cli/commands/bench_moe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <type_traits>

#include "cli/bench/ep_timer.hpp"
#include "cli/bench/gpu_facts.hpp"
#include "cli/bench/layer_experts.hpp"
#include "cli/bench/on_cores.hpp"
#include "cli/bench/overlapped_layers.hpp"
#include "cli/commands/bench_moe_point.hpp"
#include "cli/commands/bench_report.hpp"
#include "cli/commands/product_sizes.hpp"
#include "cli/config_words.hpp"
#include "cli/exit_code.hpp"
#include "cli/layer_error.hpp"

namespace baton::cli {
namespace {

constexpr int moe_warm_up = 3;
constexpr moe_model small_layer{"small", 4, 256, 128, 8, 2};

void require(const bench_moe_options& o) {
  require_within("--repeats", o.repeats, 1, 1 << 20);
  require_within("--rounds", o.rounds, 0, 128);
  for (const int tokens : o.tokens) require_within("--tokens", tokens, 1, 1 << 20);
  require_within("--micro-batches", o.micro_batches, 1, 2);
  for (const int sms : o.exchange_sms) require_within("--exchange-sms", sms, 1, 1 << 10);
}

std::vector<world> open_layer_worlds(const bench_moe_options& o) {
  if (o.device) return world::local(o.ranks, *o.device);
  try {
    return world::local(o.ranks, device_kind::cuda);
  } catch (const unsupported&) {
    return world::local(o.ranks, device_kind::cpu);
  }
}

std::vector<moe_model> models_of(const bench_moe_options& o, bool on_gpu) {
  std::vector<moe_model> models;
  for (const std::string& name : o.models) models.push_back(moe_model_named(name));
  if (models.empty()) models.push_back(on_gpu ? moe_model_named("deepseek-v3") : small_layer);
  return models;
}

int rounds_of(const bench_moe_options& o, int tokens, bool on_gpu) {
  if (o.rounds > 0) return o.rounds;
  return on_gpu ? std::clamp(20 * 128 / tokens, 2, 20) : 1;
}

/// Matrices of one expert of a rank, appended to those of others.
template <class Value>
void append(std::vector<Value>& values, std::vector<float>& scales, const layer_matrix<Value>& from,
            int expert, int n, int k) {
  const std::size_t of_expert = static_cast<std::size_t>(n) * static_cast<std::size_t>(k),
                    blocks = static_cast<std::size_t>(weight_scales(n)) *
                             static_cast<std::size_t>(weight_scales(k));
  const auto at = static_cast<std::size_t>(expert);
  from.values.append(at * of_expert, of_expert, values);
  if (from.scales != nullptr) from.scales->append(at * blocks, blocks, scales);
}

int rank_of_expert(const moe_point& p, std::int32_t id) {
  int rank = p.ranks - 1;
  while (id < experts_of_rank(p.config.num_experts, p.ranks, rank).first) --rank;
  return rank;
}

/// The experts of one token, numbered as it lists them.
template <class Value>
model::expert_matrices experts_of_token(const layer_experts<Value>& experts, const moe_point& p,
                                        std::span<const std::int32_t> ids) {
  model::expert_matrices all{.num_experts = static_cast<int>(ids.size()),
                             .hidden = p.model.hidden,
                             .intermediate = p.model.intermediate,
                             .gate = {},
                             .up = {},
                             .down = {},
                             .format = p.weights};
  const int hidden = p.model.hidden, intermediate = p.model.intermediate;
  std::vector<float> no_scales;
  for (const std::int32_t id : ids) {
    const int rank = rank_of_expert(p, id);
    const int own = id - experts_of_rank(p.config.num_experts, p.ranks, rank).first;
    const auto& from = experts.weights(rank);
    if constexpr (std::is_same_v<Value, bfloat16>) {
      append(all.gate, no_scales, from.gate, own, intermediate, hidden);
      append(all.up, no_scales, from.up, own, intermediate, hidden);
      append(all.down, no_scales, from.down, own, hidden, intermediate);
    } else {
      append(all.fp8.gate, all.fp8.gate_scales, from.gate, own, intermediate, hidden);
      append(all.fp8.up, all.fp8.up_scales, from.up, own, intermediate, hidden);
      append(all.fp8.down, all.fp8.down_scales, from.down, own, hidden, intermediate);
    }
  }
  return all;
}

/// How an exchange rounds what a token's experts give, which are numbered as it lists them.
model::moe_rounding rounding_of_token(const moe_point& p, int rank, std::span<const std::int32_t> ids,
                                      device_kind device) {
  model::moe_rounding rounding = rounding_of(p.config, device, {}, p.weights);
  if (p.config.layout != ep_layout::per_rank) return rounding;
  rounding.rank_of_token = {rank};
  for (const std::int32_t id : ids) rounding.rank_of_expert.push_back(rank_of_expert(p, id));
  return rounding;
}

/// A rank's last token, its experts numbered as it lists them.
struct last_token {
  model::routed_tokens routed{1, {}, {}, {}};
  std::span<const std::int32_t> ids;
  std::size_t number;

  last_token(const rank_inputs& in, const ep_config& c)
      : number{static_cast<std::size_t>(c.num_max_tokens_per_rank - 1)} {
    const auto of_token = [this](const auto& values, int width) {
      return std::span{values}.subspan(number * static_cast<std::size_t>(width),
                                       static_cast<std::size_t>(width));
    };
    ids = of_token(in.topk_idx, c.top_k);
    for (const bfloat16 v : of_token(in.tokens, c.hidden)) routed.hidden.push_back(v);
    for (const float v : of_token(in.topk_weights, c.top_k)) routed.topk_weights.push_back(v);
    for (int k = 0; k < c.top_k; ++k) routed.topk_idx.push_back(k);
  }
};

/// The last token of a rank against its bound, rounded to bf16 once more: `p` as it becomes.
template <class Value>
void check_token(const ep_session& session, const layer_experts<Value>& experts, int rank, moe_point& p) {
  const auto hidden = static_cast<std::size_t>(p.model.hidden);
  const last_token token{session.inputs_of(rank, 0), p.config};
  model::bounded_moe bounds =
      model::moe_error_bound(experts_of_token(experts, p, token.ids), token.routed,
                             rounding_of_token(p, rank, token.ids, session.worlds()[0].device()));
  for (std::size_t i = 0; i < hidden; ++i)
    bounds.bound[i] += 0x1p-8 * (std::abs(bounds.exact[i]) + bounds.bound[i]);
  const std::vector<bfloat16> all = session.output_of(rank);
  std::vector<float> found;
  for (std::size_t i = 0; i < hidden; ++i)
    found.push_back(static_cast<float>(all[token.number * hidden + i]));
  const model::worst_value worst = model::compare(bounds, found, p.model.hidden);
  p.worst = worst.ratio;
  if (worst.ratio > 1)
    p.wrong = fmt::format("rank {}, token {}, column {}: {}, expected {} +- {}", rank, token.number,
                          worst.column, worst.found, worst.exact, worst.bound);
}

/// That of each rank, on a thread each: in double a token of eight large experts takes seconds.
template <class Value>
void check_tokens(const ep_session& session, const layer_experts<Value>& experts, moe_point& p) {
  const auto ranks = static_cast<std::size_t>(p.ranks);
  std::vector<moe_point> of_rank(ranks, p);
  in_parts(ranks, ranks, [&](std::size_t rank, std::size_t) {
    check_token(session, experts, static_cast<int>(rank), of_rank[rank]);
  });
  for (const moe_point& one : of_rank) {
    p.worst = std::max(p.worst, one.worst);
    if (!one.wrong.empty()) p.wrong = one.wrong;
  }
}

/// sample(), microseconds of each rank, behind those that warm up.
template <class Sample>
ep_timing samples_of(int repeats, Sample sample) {
  ep_timing times;
  for (int i = -moe_warm_up; i < repeats; ++i) {
    std::vector<double> us = sample();
    if (i >= 0) times.samples_us.push_back(std::move(us));
  }
  return times;
}

/// Replayed where there are graphs, else called.
ep_timing time_form(ep_timer& timer, ep_form form, const moe_point& p, int repeats) {
  return samples_of(repeats, [&] {
    std::optional<std::vector<double>> replayed = timer.time_replay(form, p.rounds);
    return replayed ? std::move(*replayed) : timer.time_rounds(form, p.rounds);
  });
}

void time_steps(ep_timer& timer, const ep_session& session, moe_point& p, int repeats) {
  p.steps.resize(steps_of(p.form).size());
  for (int i = -moe_warm_up; i < repeats; ++i) {
    const auto times = timer.time_steps(p.form, (i + moe_warm_up) % session.num_sets());
    for (std::size_t s = 0; i >= 0 && s < p.steps.size(); ++s)
      p.steps[s].samples_us.push_back(of_step(times, s));
  }
}

template <class Value>
void measure_layer(std::span<const world> worlds, layer_experts<Value>& experts, moe_point& p, int repeats) {
  const bool fused = why_not_fused(worlds).empty();
  p.form = fused ? ep_form::fused_layer : ep_form::split_layer;
  ep_session session{worlds, p.config, p.given};
  session.use(experts);
  for (int set = 0; set < session.num_sets(); ++set)
    p.rows += static_cast<double>(session.traffic_of_set(set).most_rows_received()) / session.num_sets();
  session.run_round(0, p.form);
  check_tokens(session, experts, p);
  if (!p.wrong.empty()) return;
  const std::unique_ptr<ep_timer> timer = make_timer(session);
  time_steps(*timer, session, p, repeats);
  p.layer = time_form(*timer, p.form, p, repeats);
  p.exchange = time_form(*timer, fused ? ep_form::fused : ep_form::split, p, repeats);
  p.experts = time_form(*timer, ep_form::experts, p, repeats);
}

/// Two micro-batches halve the tokens and call fused kernels, which ranks that share a GPU cannot.
void require_halves(std::span<const world> worlds, const bench_moe_options& o,
                    const std::vector<int>& all_tokens) {
  if (o.micro_batches == 1) return;
  for (const int tokens : all_tokens)
    if (tokens % 2 != 0)
      throw invalid_argument{
          fmt::format("--tokens: {}, expected an even number with --micro-batches 2", tokens)};
  if (const std::string reason = why_not_fused(worlds); !reason.empty())
    throw unsupported{fmt::format("--micro-batches 2: {}; use fewer --ranks", reason)};
  if (const auto gpu = facts_of(worlds))
    for (const int sms : o.exchange_sms)
      if (sms >= gpu->sms)
        throw invalid_argument{
            fmt::format("--exchange-sms: {}, expected fewer than the GPU's {}", sms, gpu->sms)};
}

/// Of two sessions with half of the tokens each, whose experts share weights. What the last layer gave is checked.
template <class Value>
ep_timing time_overlapped(std::span<const world> worlds, const layer_experts<Value>& weights, moe_point& p,
                          int exchange_sms, int repeats) {
  moe_point half = p;
  half.config.num_max_tokens_per_rank /= 2;
  half.given.num_sets = 1;
  int expert_sms = 0;
  if (const auto gpu = facts_of(worlds)) {
    half.config.num_sms = exchange_sms;
    expert_sms = gpu->sms - exchange_sms;
  }
  layer_experts<Value> experts[] = {weights.sharing_weights(expert_sms), weights.sharing_weights(expert_sms)};
  ep_session first{worlds, half.config, half.given};
  half.given.seed += 17;
  ep_session second{worlds, half.config, half.given};
  first.use(experts[0]);
  second.use(experts[1]);
  for (ep_session* batch : {&first, &second}) batch->run_round(0, ep_form::fused_layer);
  const std::unique_ptr<overlapped_layers> layers = make_overlapped_layers({&first, &second});
  ep_timing times = samples_of(repeats, [&] { return layers->time(p.rounds); });
  for (const ep_session* batch : {&first, &second}) check_tokens(*batch, weights, half);
  p.worst = half.worst;
  if (!half.wrong.empty()) p.wrong = fmt::format("two micro-batches, {} SMs: {}", exchange_sms, half.wrong);
  return times;
}

ep_config layer_config(const bench_moe_options& o, const moe_model& model, int tokens, token_format format) {
  ep_config c;
  c.num_experts = model.experts_of_layer;
  c.top_k = model.top_k;
  c.hidden = model.hidden;
  c.num_max_tokens_per_rank = tokens;
  c.format = format;
  c.layout = o.layout;
  c.transfer = o.transfer;
  c.rows = o.layout == ep_layout::per_rank ? o.rows : ep_rows::by_expert;
  require_served(c, o.ranks, bench_words);
  return c;
}

/// Measures and tells. True: all were right.
class moe_bench {
 public:
  moe_bench(std::span<const world> worlds, const bench_moe_options& o, bench_report& to)
      : worlds_{worlds}, options_{o}, to_{to}, timer_{worlds[0]}, run_{begin_gemm_run(worlds, timer_, 0)} {
    to_.table([&](std::ostream& table) { print_heading(run_, table); });
  }

  template <class Value>
  bool measure(const moe_model& model, weight_format weights, const std::vector<int>& tokens) {
    layer_experts<Value> experts{worlds_,
                                 {model.experts_of_layer, model.hidden, model.intermediate, weights}};
    bool all_right = true;
    for (const int of_rank : tokens)
      for (const token_format format : options_.formats)
        for (const ep_routing routing : options_.routings) {
          moe_point p;
          p.model = model;
          p.weights = weights;
          p.config = layer_config(options_, model, of_rank, format);
          p.given = {.num_sets = 2, .seed = options_.seed, .forms = {}, .routing = routing};
          p.ranks = options_.ranks;
          p.rounds = rounds_of(options_, of_rank, worlds_[0].device() == device_kind::cuda);
          measure_layer(worlds_, experts, p, options_.repeats);
          measure_halves(experts, p);
          to_.add(to_json(run_, p));
          to_.table([&](std::ostream& table) { print(run_, p, table); });
          all_right = all_right && p.wrong.empty();
        }
    return all_right;
  }

 private:
  template <class Value>
  void measure_halves(const layer_experts<Value>& experts, moe_point& p) {
    if (options_.micro_batches != 2) return;
    for (const int sms : options_.exchange_sms)
      if (p.wrong.empty())
        p.overlapped.push_back({sms, time_overlapped(worlds_, experts, p, sms, options_.repeats)});
  }

  std::span<const world> worlds_;
  const bench_moe_options& options_;
  bench_report& to_;
  paced_timer timer_;
  gemm_run run_;
};

}  // namespace

int run_bench_moe(const bench_moe_options& o, std::ostream& out) {
  require(o);
  const std::vector<world> worlds = open_layer_worlds(o);
  const bool on_gpu = worlds[0].device() == device_kind::cuda;
  std::vector<int> tokens = o.tokens;
  if (tokens.empty()) tokens = on_gpu ? std::vector<int>{1, 32, 128, 512, 4096} : std::vector<int>{16};
  require_halves(worlds, o, tokens);
  bench_report to{o.json, o.json_path, out};
  moe_bench bench{worlds, o, to};
  bool all_right = true;
  for (const moe_model& model : models_of(o, on_gpu))
    for (const weight_format weights : o.weights)
      all_right = (weights == weight_format::bf16 ? bench.measure<bfloat16>(model, weights, tokens)
                                                  : bench.measure<float8_e4m3>(model, weights, tokens)) &&
                  all_right;
  to.publish();
  return static_cast<int>(all_right ? exit_code::ok : exit_code::check_failed);
}

}  // namespace baton::cli
