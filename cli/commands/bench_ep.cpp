#include "cli/commands/bench_ep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "baton/error.hpp"
#include "cli/bench/ep_point.hpp"
#include "cli/bench/ep_table.hpp"
#include "cli/bench/ep_timer.hpp"
#include "cli/bench/flag_floor.hpp"
#include "cli/bench/gpu_facts.hpp"
#include "cli/bench/nccl_exchange.hpp"
#include "cli/bench/probe/probe.hpp"
#include "cli/bench/statistics.hpp"
#include "cli/commands/bench_ep_points.hpp"
#include "cli/config_words.hpp"
#include "cli/exchange_settings.hpp"
#include "cli/exit_code.hpp"
#include "cli/model/output_file.hpp"
#include "cli/recorded_routing.hpp"

namespace baton::cli {
namespace {

constexpr int warm_up_repeats = 3;

void require(const bench_ep_options& o) {
  constexpr int most_repeats = 1 << 20,
                most_rounds = 128;  // a stream holds 1024 launches behind a closed gate
  if (o.repeats < 1 || o.repeats > most_repeats)
    throw invalid_argument{fmt::format("--repeats: {} is outside [1, {}]", o.repeats, most_repeats)};
  if (o.rounds < 0 || o.rounds > most_rounds)
    throw invalid_argument{fmt::format("--rounds: {} is outside [0, {}]; 0 chooses", o.rounds, most_rounds)};
  // Of sizes that can be served only the ranks are in doubt; the others are looked at point by point.
  require_served(
      {.num_experts = std::max(o.ranks, 1), .top_k = 1, .hidden = 128, .num_max_tokens_per_rank = 1}, o.ranks,
      bench_words);
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
  const probe::link_report links = probe::measure_links(worlds, probe::links_of::bytes);
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
int num_input_sets(const ep_config& c) {
  return std::int64_t{c.num_max_tokens_per_rank} * c.hidden <= (4 << 20) ? 4 : 2;
}

/// So many that what comes before and after does not count; what takes long needs fewer.
int num_rounds(const bench_ep_options& o, int tokens, device_kind device) {
  if (o.rounds > 0) return o.rounds;
  return device == device_kind::cpu ? 1 : std::clamp(40 * 512 / tokens, 4, 40);
}

std::vector<double> sum(std::vector<double> a, const std::vector<double>& b) {
  std::transform(a.begin(), a.end(), b.begin(), a.begin(), std::plus{});
  return a;
}

void time_form(ep_session& session, ep_form form, ep_point& point) {
  const std::unique_ptr<ep_timer> timer = make_timer(session);
  ep_form_times& times = form == ep_form::split ? point.split : point.fused;
  times.steps.resize(steps_of(form).size());
  for (int i = -warm_up_repeats; i < point.repeats; ++i) {
    const int set = (i + warm_up_repeats) % session.num_sets();
    const std::vector<std::vector<double>> steps = timer->time_steps(form, set);
    std::vector<double> round = timer->time_rounds(form, point.rounds);
    std::optional<std::vector<double>> replay = timer->time_replay(form, point.rounds);
    if (i < 0) continue;
    for (std::size_t s = 0; s < times.steps.size(); ++s)
      times.steps[s].samples_us.push_back(of_step(steps, s));
    times.round.samples_us.push_back(std::move(round));
    if (replay) times.replay.samples_us.push_back(std::move(*replay));
    if (form != ep_form::split) continue;
    point.dispatch.samples_us.push_back(sum(of_step(steps, 0), of_step(steps, 1)));
    point.combine.samples_us.push_back(sum(of_step(steps, 2), of_step(steps, 3)));
  }
}

/// The tokens, scales and replies of the first set of inputs, one for each message, and nothing that frames them.
void time_nccl(nccl_exchange& nccl, ep_point& point) {
  const ep_traffic& moved = point.moved.at(0);
  const auto ranks = static_cast<std::size_t>(moved.num_ranks());
  std::vector<std::uint64_t> out(ranks * ranks), back(ranks * ranks);
  for (std::size_t s = 0; s < ranks; ++s) {
    for (std::size_t d = 0; d < ranks; ++d) {
      const std::uint64_t messages = moved.messages_between(static_cast<int>(s), static_cast<int>(d));
      out[s * ranks + d] = messages * moved.row_bytes();
      back[d * ranks + s] = messages * 2 * static_cast<std::uint64_t>(point.config.hidden);
    }
  }
  const int rounds =
      std::min(point.rounds, 40);  // NCCL waits for room for its work, behind a closed gate for ever
  for (int i = -warm_up_repeats; i < point.repeats; ++i) {
    std::vector<double> dispatch = nccl.time(out, rounds), combine = nccl.time(back, rounds);
    if (i < 0) continue;
    point.nccl_dispatch.samples_us.push_back(std::move(dispatch));
    point.nccl_combine.samples_us.push_back(std::move(combine));
  }
}

void verify(ep_session& session, ep_form form, comparison& all) {
  for (int set = 0; set < session.num_sets(); ++set) all.add(session.verify(set, form));
}

wait_matrix waits_of(std::span<const world> worlds) {
  std::vector<peer_waits> all;
  for (const world& rank : worlds) all.push_back(rank.wait_times());
  return matrix_of(all);
}

void measure(std::span<const world> worlds, bool fused, nccl_exchange* nccl, ep_point& point) {
  {
    ep_session session{worlds, point.config, point.given};
    for (int set = 0; set < session.num_sets(); ++set) point.moved.push_back(session.traffic_of_set(set));
    verify(session, ep_form::split, point.verified);
    if (fused) verify(session, ep_form::fused, point.verified);
    if (!point.is_right()) return;
    for (const world& rank : worlds) rank.reset_wait_times();
    time_form(session, ep_form::split, point);
    if (fused) time_form(session, ep_form::fused, point);
    point.waits = waits_of(worlds);
  }
  if (nccl != nullptr) time_nccl(*nccl, point);
}

/// What every point is compared with.
void measure_links(std::span<const world> worlds, const bench_ep_options& o, ep_run& run) {
  measure_push(worlds, run);
  run.why_not_fused = why_not_fused(worlds);
  if (worlds[0].device() == device_kind::cpu || worlds.size() < 2) return;
  run.floor.samples_us = measure_flag_floor(worlds, num_rounds(o, 1, device_kind::cuda), o.repeats);
}

/// Who is told of a point: its line of JSON, and the table, if there is one.
struct listeners {
  std::function<void(std::string)> tell;
  std::ostream* table;
};

/// Whether the point is right, or one that is left out.
bool measure_and_tell(std::span<const world> worlds, const bench_ep_options& o, const ep_run& run,
                      const wanted_point& wanted, nccl_exchange* nccl, const listeners& to) {
  ep_point point;
  point.config = wanted.config;
  point.given = wanted.given;
  point.given.num_sets = num_input_sets(wanted.config);
  point.repeats = o.repeats;
  point.rounds = num_rounds(o, wanted.config.num_max_tokens_per_rank, worlds[0].device());
  if (to.table != nullptr && wanted.begins_sizes) print_sizes(point, *to.table);
  if (!wanted.why_not.empty()) {
    to.tell(skipped_json(run, point, wanted.why_not).dump());
    if (to.table != nullptr) print_skipped(run, point, wanted.why_not, *to.table);
    return true;
  }
  measure(worlds, run.why_not_fused.empty(), nccl, point);
  to.tell(to_json(run, point).dump());
  if (to.table != nullptr) print_row(run, point, *to.table);
  return point.is_right();
}

/// The recording, if some routing is of one.
std::optional<recorded_routing> recording(const bench_ep_options& o) {
  const bool is_wanted =
      std::find(o.routings.begin(), o.routings.end(), ep_routing::trace) != o.routings.end();
  if (is_wanted && o.trace.empty())
    throw invalid_argument{"--routing trace: needs a recording; name its file with --trace"};
  if (!is_wanted) return std::nullopt;
  return read_recorded_routing(o.trace);
}

}  // namespace

int run_bench_ep(const bench_ep_options& o, std::ostream& out) {
  require(o);
  const std::optional<recorded_routing> recorded = recording(o);
  ep_run run;
  const std::vector<world> worlds = open_worlds(o, run);
  const std::vector<wanted_point> points = all_points(o, worlds[0].device(), recorded ? &*recorded : nullptr);
  std::optional<model::output_file> file;
  if (!o.json_path.empty()) file.emplace(o.json_path, "--json-file");
  run.date = utc_now();
  run.device = worlds[0].device() == device_kind::cpu ? "cpu" : "cuda";
  if (const std::optional<measured_gpus> gpu = facts_of(worlds)) {
    run.gpu = gpu->name;
    run.driver = gpu->driver;
  }
  measure_links(worlds, o, run);
  const std::unique_ptr<nccl_exchange> nccl = open_nccl(worlds, run.why_no_nccl);
  if (nccl != nullptr) run.nccl_version = nccl->version();

  const auto tell = [&](const std::string& line) {
    if (o.json) out << line << '\n';
    if (file) file->write(line + '\n');
  };
  bool all_right = true;
  if (!o.json && !points.empty()) print_header(run, points[0].config, o.forms, out);
  for (const wanted_point& point : points) {
    all_right &= measure_and_tell(worlds, o, run, point, nccl.get(), {tell, o.json ? nullptr : &out});
    out.flush();
  }
  if (file) file->publish();
  return static_cast<int>(all_right ? exit_code::ok : exit_code::check_failed);
}

}  // namespace baton::cli
