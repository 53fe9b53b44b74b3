#include "cli/commands/bench_ep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "baton/error.hpp"
#include "cli/bench/ep_point.hpp"
#include "cli/bench/ep_timer.hpp"
#include "cli/bench/gpu_facts.hpp"
#include "cli/bench/nccl_exchange.hpp"
#include "cli/bench/probe/probe.hpp"
#include "cli/bench/statistics.hpp"
#include "cli/config_words.hpp"
#include "cli/exchange_settings.hpp"
#include "cli/exit_code.hpp"
#include "cli/model/output_file.hpp"

namespace baton::cli {
namespace {

constexpr int warm_up_rounds = 3;

void require(const bench_ep_options& o) {
  require_served(
      {.num_experts = o.experts, .top_k = o.top_k, .hidden = o.hidden, .num_max_tokens_per_rank = 1}, o.ranks,
      bench_words);
  constexpr int most_repeats = 1 << 20;
  if (o.repeats < 1 || o.repeats > most_repeats)
    throw invalid_argument{fmt::format("--repeats: {} is outside [1, {}]", o.repeats, most_repeats)};
  if (o.top_k > o.experts)
    throw invalid_argument{
        fmt::format("--top-k: {} is more than the {} experts; the benchmark gives a token distinct experts",
                    o.top_k, o.experts)};
}

/// The ranks on the device asked for, or on CUDA if it can serve them and on the CPU otherwise.
std::vector<world> open_worlds(const bench_ep_options& o, ep_run& run) {
  run.ranks = o.ranks;
  if (o.device) return world::local(o.ranks, *o.device);
  try {
    return world::local(o.ranks, device_kind::cuda);
  } catch (const unsupported& e) {
    run.why_not_cuda = short_reason(e.what());
    return world::local(o.ranks, device_kind::cpu);
  }
}

void measure_push(std::span<const world> worlds, ep_run& run) {
  if (worlds.size() < 2) {
    run.why_no_push = "one rank has no links";
    return;
  }
  const probe::link_report links = probe::measure_links(worlds);
  if (links.egress_gb_per_s.empty()) {
    run.why_no_push = "the probe found no links";
    return;
  }
  const auto slowest =
      std::min_element(links.egress_gb_per_s.begin(), links.egress_gb_per_s.end(),
                       [](const probe::spread& a, const probe::spread& b) { return a.median < b.median; });
  run.push_gb_per_s = slowest->median;
  run.push_method = links.method + ", between " + links.between;
}

/// Fewer sets where one is large: what matters is that a round does not repeat the one before it.
int num_input_sets(const bench_ep_options& o, int tokens) {
  return std::int64_t{tokens} * o.hidden <= (4 << 20) ? 4 : 2;
}

std::vector<double> sum(const std::vector<step_times>& times, std::size_t first) {
  std::vector<double> sums;
  for (const step_times& t : times) sums.push_back(t[first] + t[first + 1]);
  return sums;
}

std::vector<double> column(const std::vector<step_times>& times, std::size_t step) {
  std::vector<double> values;
  for (const step_times& t : times) values.push_back(t[step]);
  return values;
}

void time_exchange(ep_session& session, ep_point& point) {
  const std::unique_ptr<ep_timer> timer = make_timer(session);
  for (int i = -warm_up_rounds; i < point.repeats; ++i) {
    const int set = (i + warm_up_rounds) % session.num_sets();
    const std::vector<step_times> steps = timer->time_steps(set);
    std::vector<double> round = timer->time_round((set + 1) % session.num_sets());
    std::optional<std::vector<double>> replay = timer->time_replay((set + 2) % session.num_sets());
    if (i < 0) continue;
    for (std::size_t s = 0; s < 4; ++s) point.steps[s].samples_us.push_back(column(steps, s));
    point.dispatch.samples_us.push_back(sum(steps, 0));
    point.combine.samples_us.push_back(sum(steps, 2));
    point.round.samples_us.push_back(std::move(round));
    if (replay) point.replay.samples_us.push_back(std::move(*replay));
  }
}

/// The bytes of the first set of inputs, in messages and in replies.
void time_nccl(nccl_exchange& nccl, ep_point& point) {
  const auto ranks = static_cast<std::size_t>(point.moved.ranks);
  std::vector<std::uint64_t> out(ranks * ranks), back(ranks * ranks);
  for (std::size_t s = 0; s < ranks; ++s) {
    for (std::size_t d = 0; d < ranks; ++d) {
      out[s * ranks + d] = point.moved.rows[s * ranks + d] * point.moved.message_bytes;
      back[d * ranks + s] = point.moved.rows[s * ranks + d] * point.moved.combine_row_bytes;
    }
  }
  for (int i = -warm_up_rounds; i < point.repeats; ++i) {
    std::vector<double> dispatch = nccl.time(out), combine = nccl.time(back);
    if (i < 0) continue;
    point.nccl_dispatch.samples_us.push_back(std::move(dispatch));
    point.nccl_combine.samples_us.push_back(std::move(combine));
  }
}

ep_point measure(std::span<const world> worlds, const bench_ep_options& o, const ep_config& config,
                 nccl_exchange* nccl) {
  ep_point point;
  point.config = config;
  point.repeats = o.repeats;
  point.seed = o.seed;
  point.input_sets = num_input_sets(o, config.num_max_tokens_per_rank);
  {
    ep_session session{worlds, config, point.input_sets, o.seed};
    point.moved = session.traffic_of_set(0);
    for (int set = 0; set < session.num_sets(); ++set) {
      const comparison c = session.verify(set);
      point.verified.values += c.values;
      point.verified.wrong += c.wrong;
      point.verified.worst_error = std::max(point.verified.worst_error, c.worst_error);
    }
    if (!point.is_right()) return point;
    time_exchange(session, point);
  }
  if (nccl != nullptr) time_nccl(*nccl, point);
  return point;
}

std::vector<ep_config> all_points(const bench_ep_options& o, device_kind device) {
  std::vector<int> tokens = o.tokens;
  if (tokens.empty())
    tokens = device == device_kind::cuda ? std::vector<int>{128, 4096} : std::vector<int>{16};
  std::vector<ep_config> points;
  for (const int count : tokens) {
    for (const token_format format : o.formats) {
      for (const int sms : o.num_sms) {
        ep_config c;
        c.num_experts = o.experts;
        c.top_k = o.top_k;
        c.hidden = o.hidden;
        c.num_max_tokens_per_rank = count;
        c.format = format;
        c.num_sms = sms;
        c.num_threads = o.num_threads;
        require_served(c, o.ranks, bench_words);
        points.push_back(c);
      }
    }
  }
  return points;
}

}  // namespace

int run_bench_ep(const bench_ep_options& o, std::ostream& out) {
  require(o);
  ep_run run;
  const std::vector<world> worlds = open_worlds(o, run);
  const std::vector<ep_config> points = all_points(o, worlds[0].device());
  std::optional<model::output_file> file;
  if (!o.json_path.empty()) file.emplace(o.json_path, "--json-file");
  run.date = utc_now();
  run.device = worlds[0].device() == device_kind::cpu ? "cpu" : "cuda";
  if (const std::optional<gpu_facts> gpu = facts_of(worlds)) {
    run.gpu = gpu->name;
    run.driver = gpu->driver;
  }
  measure_push(worlds, run);
  const std::unique_ptr<nccl_exchange> nccl = open_nccl(worlds, run.why_no_nccl);
  if (nccl != nullptr) run.nccl_version = nccl->version();

  bool all_right = true;
  if (!o.json && !points.empty()) print_header(run, points[0], out);
  for (const ep_config& config : points) {
    const ep_point point = measure(worlds, o, config, nccl.get());
    all_right = all_right && point.is_right();
    const std::string line = to_json(run, point).dump();
    if (o.json)
      out << line << '\n';
    else
      print_row(run, point, out);
    out.flush();
    if (file) file->write(line + '\n');
  }
  if (file) file->publish();
  return static_cast<int>(all_right ? exit_code::ok : exit_code::check_failed);
}

}  // namespace baton::cli
