#include "cli/commands/bench_silu.hpp"

#include <fmt/format.h>

#include "baton/version.hpp"
#include "cli/bench/gpu_facts.hpp"
#include "cli/bench/require_within.hpp"
#include "cli/bench/silu_session.hpp"
#include "cli/bench/statistics.hpp"
#include "cli/bench/work_timer.hpp"
#include "cli/commands/bench_report.hpp"
#include "cli/exit_code.hpp"

namespace baton::cli {
namespace {

constexpr int warm_up_passes = 3;

struct silu_point {
  silu_size size;
  double bytes = 0;
  std::string wrong;
  std::vector<double> samples_us, copy_us;

  double gb_per_s() const { return rate(samples_us); }
  double copy_gb_per_s() const { return rate(copy_us); }

 private:
  double rate(const std::vector<double>& us) const { return us.empty() ? 0 : bytes / median_of(us) / 1e3; }
};

void require(const bench_silu_options& o) {
  require_within("--repeats", o.repeats, 1, 1 << 20);
  require_within("--columns", o.columns, 1, 65536);
  for (const int rows : o.rows) require_within("--rows", rows, 1, 1 << 20);
  for (const token_format f : o.formats)
    if (o.columns % facts_of(f).multiple != 0)
      throw invalid_argument{fmt::format("--columns: {} is not a multiple of {}, as format {} needs",
                                         o.columns, facts_of(f).multiple, name(f))};
}

silu_point measure(const world& where, const silu_size& size, int repeats, work_timer& timer) {
  silu_session session{where, size};
  silu_point point{size, session.bytes(), session.first_wrong(), {}, {}};
  // They take turns, so that a clock that drifts drifts for both.
  for (int i = -warm_up_passes; i < repeats && point.wrong.empty(); ++i) {
    const double us = timer.time([&](stream_ref s) { session.enqueue(s); });
    const double copy = timer.time([&](stream_ref s) { session.enqueue_copy(s); });
    if (i < 0) continue;
    point.samples_us.push_back(us);
    point.copy_us.push_back(copy);
  }
  return point;
}

nlohmann::json to_json(const silu_point& p, const nlohmann::json& run) {
  nlohmann::json j = run;
  const auto timed = [&](const nlohmann::json& value) {
    return p.samples_us.empty() ? nlohmann::json() : value;
  };
  j["rows"] = p.size.rows;
  j["columns"] = p.size.columns;
  j["format"] = name(p.size.format);
  j["bytes"] = p.bytes;
  j["checked"] = p.wrong.empty();
  j["wrong"] = p.wrong.empty() ? nlohmann::json() : nlohmann::json(p.wrong);
  j["median_us"] = timed(median_of(p.samples_us));
  j["mad_us"] = timed(mad_of(p.samples_us));
  j["gb_per_s"] = timed(p.gb_per_s());
  j["copy_median_us"] = timed(median_of(p.copy_us));
  j["copy_gb_per_s"] = timed(p.copy_gb_per_s());
  j["fraction_of_copy"] = timed(median_of(p.copy_us) / median_of(p.samples_us));
  j["samples_us"] = p.samples_us;
  j["copy_samples_us"] = p.copy_us;
  return j;
}

void print(const silu_point& p, std::ostream& out) {
  if (!p.wrong.empty()) {
    out << fmt::format("{:<8}{:>8}{:>9}  WRONG: {}\n", name(p.size.format), p.size.rows, p.size.columns,
                       p.wrong);
    return;
  }
  out << fmt::format("{:<8}{:>8}{:>9}{:>12.1f}{:>8.1f}{:>10.4g}{:>10.0f} %\n", name(p.size.format),
                     p.size.rows, p.size.columns, median_of(p.samples_us), mad_of(p.samples_us), p.gb_per_s(),
                     100 * median_of(p.copy_us) / median_of(p.samples_us));
}

}  // namespace

int run_bench_silu(const bench_silu_options& o, std::ostream& out) {
  require(o);
  const std::vector<world> worlds = open_one_rank(o.device);
  const bool on_gpu = worlds[0].device() == device_kind::cuda;
  const std::optional<measured_gpus> gpu = facts_of(worlds);
  const nlohmann::json run{{"schema", "baton.bench.silu/1"},
                           {"device", on_gpu ? "cuda" : "cpu"},
                           {"gpu", gpu ? nlohmann::json(gpu->name) : nlohmann::json()},
                           {"driver", gpu ? nlohmann::json(gpu->driver) : nlohmann::json()},
                           {"date", utc_now()},
                           {"version", version()},
                           {"build", build_info()}};
  std::vector<int> rows = o.rows;
  if (rows.empty()) rows = on_gpu ? std::vector<int>{1024, 16384} : std::vector<int>{64};
  const std::unique_ptr<work_timer> timer = make_work_timer(worlds[0]);
  bench_report to{o.json, o.json_path, out};
  to.table([&](std::ostream& table) {
    table << fmt::format("silu(gate) * up on {}\n\n{:<8}{:>8}{:>9}{:>12}{:>8}{:>10}{:>12}\n",
                         gpu ? gpu->name : "the CPU", "format", "rows", "columns", "median us", "+-", "GB/s",
                         "of a copy");
  });
  bool all_right = true;
  for (const int count : rows) {
    for (const token_format format : o.formats) {
      const silu_point point = measure(worlds[0], {count, o.columns, format}, o.repeats, *timer);
      all_right = all_right && point.wrong.empty();
      to.add(to_json(point, run));
      to.table([&](std::ostream& table) { print(point, table); });
    }
  }
  to.publish();
  return static_cast<int>(all_right ? exit_code::ok : exit_code::check_failed);
}

}  // namespace baton::cli
