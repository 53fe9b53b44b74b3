#include "cli/commands/bench_ring.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>

#include "cli/bench/cublas_product.hpp"
#include "cli/bench/gemm_session.hpp"
#include "cli/bench/gpu_facts.hpp"
#include "cli/bench/hand_off/hand_off.hpp"
#include "cli/bench/require_within.hpp"
#include "cli/bench/ring_point.hpp"
#include "cli/bench/statistics.hpp"
#include "cli/bench/work_timer.hpp"
#include "cli/commands/bench_report.hpp"
#include "cli/exit_code.hpp"

namespace baton::cli {
namespace {

constexpr int warm_up_rounds = 3;

void require(const bench_ring_options& o) {
  const auto all_counted = [](const char* what, const std::vector<int>& values) {
    for (const int v : values)
      if (!hand_off::is_counted(v))
        throw invalid_argument{
            fmt::format("{}: {} is not one of {}", what, v, fmt::join(hand_off::counts, ", "))};
  };
  require_within("--repeats", o.repeats, 1, 1 << 20);
  require_within("--hand-offs", o.hand_offs, 1, 1 << 24);
  all_counted("--readers", o.readers);
  all_counted("--stages", o.stages);
  for (const int size : o.sizes) require_within("--sizes", size, 1, 65536);
}

hand_off_point measure_hand_offs(const world& gpu, const bench_ring_options& o, const hand_off::point& at) {
  hand_off_point point{at.strategy, at.stages, at.readers, at.hand_offs, {}};
  for (int i = -warm_up_rounds; i < o.repeats; ++i) {
    const std::vector<double> cycles = hand_off::measure(gpu, at);
    if (i >= 0) point.cycles.insert(point.cycles.end(), cycles.begin(), cycles.end());
  }
  return point;
}

void run_hand_offs(const world& gpu, const bench_ring_options& o, const ring_run& run, bench_report& to) {
  for (const ring_strategy strategy : o.strategies) {
    std::vector<hand_off_point> points;
    for (const int readers : o.readers) {
      for (const int stages : o.stages) {
        points.push_back(measure_hand_offs(
            gpu, o, {.strategy = strategy, .stages = stages, .readers = readers, .hand_offs = o.hand_offs}));
        to.add(to_json(run, points.back()));
      }
    }
    to.table([&](std::ostream& out) { print_hand_offs(points, out); });
  }
}

const char* name_of(ring_gemm_tiles tiles) {
  return tiles == ring_gemm_tiles::automatic ? "automatic"
         : tiles == ring_gemm_tiles::small   ? "small"
                                             : "large";
}

/// What is measured at one size: the strategies, and cuBLAS if it is there.
struct contestant {
  ring_gemm_point point;
  product<gemm_problem<float>> run;
};

product<gemm_problem<float>> with(const world& where, const ring_gemm_config& config) {
  return [where, config](const gemm_problem<float>& p, stream_ref stream) {
    ring_gemm(where, {p.a, p.b, p.c, p.m, p.n, p.k}, config, stream);
  };
}

std::vector<contestant> contestants(const world& where, gemm_session<gemm_problem<float>>& session, int size,
                                    const bench_ring_options& o, cublas_product* reference) {
  std::vector<contestant> all;
  const auto add = [&](std::optional<ring_strategy> strategy, const char* tiles,
                       product<gemm_problem<float>> run) {
    contestant& c = all.emplace_back();
    c.point.strategy = strategy;
    c.point.size = size;
    c.point.tiles = tiles;
    c.run = std::move(run);
  };
  for (const ring_strategy strategy : o.strategies)
    add(strategy, name_of(o.tiles), with(where, {strategy, o.tiles, 0}));
  if (reference != nullptr)
    add({}, "",
        [reference](const gemm_problem<float>& p, stream_ref stream) { reference->enqueue(p, stream); });
  for (contestant& c : all) c.point.wrong = session.first_wrong(c.run);
  return all;
}

/// They take turns, so that a clock that drifts drifts for all of them. True: every product was right.
bool run_products(const world& where, const bench_ring_options& o, const ring_run& run,
                  cublas_product* reference, bench_report& to) {
  std::vector<int> sizes = o.sizes;
  if (sizes.empty())
    sizes = where.device() == device_kind::cuda ? std::vector<int>{1024, 2048, 4096, 8192}
                                                : std::vector<int>{128};
  const std::unique_ptr<work_timer> timer = make_work_timer(where);
  bool all_right = true;
  to.table(print_gemm_header);
  for (const int size : sizes) {
    gemm_session<gemm_problem<float>> session{where, {size, size, size}};
    std::vector<contestant> all = contestants(where, session, size, o, reference);
    for (int i = -warm_up_rounds; i < o.repeats; ++i) {
      for (contestant& c : all) {
        if (!c.point.wrong.empty()) continue;
        const double us = timer->time([&](stream_ref stream) { session.enqueue(c.run, stream); });
        if (i >= 0) c.point.samples_us.push_back(us);
      }
    }
    const double reference_us = reference != nullptr ? median_of(all.back().point.samples_us) : 0;
    for (const contestant& c : all) {
      all_right = all_right && c.point.wrong.empty();
      to.add(to_json(run, c.point));
      to.table([&](std::ostream& out) { print_gemm(c.point, reference_us, out); });
    }
  }
  return all_right;
}

}  // namespace

int run_bench_ring(const bench_ring_options& o, std::ostream& out) {
  require(o);
  const std::vector<world> worlds = open_one_rank(o.device);
  const bool on_gpu = worlds[0].device() == device_kind::cuda;
  ring_run run;
  run.device = on_gpu ? "cuda" : "cpu";
  run.date = utc_now();
  if (!on_gpu) run.why_no_hand_offs = "their cycles are measured on a GPU only";
  if (const std::optional<measured_gpus> gpu = facts_of(worlds)) {
    run.gpu = gpu->name;
    run.driver = gpu->driver;
  }
  const std::unique_ptr<cublas_product> reference = open_cublas(worlds[0], run.why_no_cublas);
  if (reference != nullptr) run.cublas = reference->version();
  bench_report to{o.json, o.json_path, out};
  to.table([&](std::ostream& table) { print_header(run, table); });
  if (on_gpu) run_hand_offs(worlds[0], o, run, to);
  const bool all_right = run_products(worlds[0], o, run, reference.get(), to);
  to.publish();
  return static_cast<int>(all_right ? exit_code::ok : exit_code::check_failed);
}

}  // namespace baton::cli
