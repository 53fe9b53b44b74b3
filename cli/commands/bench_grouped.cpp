#include "cli/commands/bench_grouped.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/bench/grouped_point.hpp"
#include "cli/bench/grouped_session.hpp"
#include "cli/commands/bench_report.hpp"
#include "cli/commands/product_sizes.hpp"
#include "cli/exit_code.hpp"

namespace baton::cli {
namespace {

constexpr int most_groups = 512;  // of grouped_gemm

void require(const bench_gemm_options& o) {
  require_measuring(o);
  require_within("--groups", o.grouped.groups, 1, most_groups);
  for (const int rows : o.grouped.rows) require_within("--rows", rows, 1, 65536);
}

const moe_model& model_named(const std::string& name) {
  const std::span<const moe_model> models = moe_models();
  const auto at =
      std::find_if(models.begin(), models.end(), [&](const moe_model& model) { return name == model.name; });
  if (at != models.end()) return *at;
  std::vector<std::string> names;
  for (const moe_model& model : models) names.emplace_back(model.name);
  throw invalid_argument{fmt::format("--models: \"{}\" is not one of {}", name, fmt::join(names, ", "))};
}

std::vector<grouped_shape> grouped_shapes_of(const bench_gemm_options& o, bool on_gpu) {
  std::vector<grouped_shape> shapes;
  const auto add = [&shapes](const moe_model& model) {
    for (grouped_shape& product : products_of(model)) shapes.push_back(std::move(product));
  };
  for (const std::string& model : o.grouped.models) add(model_named(model));
  for (const std::string& word : o.shapes) {
    const std::vector<int> sizes = product_sizes(word);
    if (sizes.size() != 2)
      throw invalid_argument{
          fmt::format("--shapes: \"{}\" is not N,K, each from 1 to {}", word, largest_size)};
    shapes.push_back({{}, {}, o.grouped.groups, sizes[0], sizes[1]});
  }
  if (!shapes.empty()) return shapes;
  if (!on_gpu) return {{{}, {}, 4, 64, 64}};
  for (const moe_model& model : moe_models()) add(model);
  return shapes;
}

std::vector<int> rows_each(const bench_gemm_options& o, bool on_gpu) {
  if (!o.grouped.rows.empty()) return o.grouped.rows;
  return on_gpu ? std::vector<int>{8, 16, 32, 64, 128, 512} : std::vector<int>{8};
}

/// Measures and tells.
class grouped_bench {
 public:
  grouped_bench(const world& where, const bench_gemm_options& o, bench_report& to)
      : where_{where},
        options_{o},
        to_{to},
        timer_{where},
        run_{begin_gemm_run(where, timer_, o.sustained_ms)} {
    to_.table([&](std::ostream& table) { print_limits(run_, "C = A * B^T of each group, bf16", table); });
  }

  void begin(const grouped_shape& shape) {
    to_.table([&](std::ostream& table) { print_heading(shape, table); });
  }

  /// True: it was right.
  bool measure(const grouped_shape& shape, int rows, group_routing routing) {
    const std::uint64_t seed = options_.grouped.seed;
    grouped_point point{shape, rows, routing, seed, group_counts(routing, shape.groups, rows, seed), {}, {}};
    grouped_session session{where_, shape, point.counts};
    point.wrong = session.first_wrong(product_);
    if (point.wrong.empty()) time(session, point);
    to_.add(to_json(run_, point));
    to_.table([&](std::ostream& table) { print(run_, point, table); });
    return point.wrong.empty();
  }

 private:
  void time(grouped_session& session, grouped_point& point) {
    session.random_values();
    const work multiply = [&](stream_ref stream) { session.enqueue(product_, stream); };
    for (int i = 0; i < options_.repeats; ++i) point.burst_us.push_back(timer_.burst(multiply));
    if (run_.sustained_ms > 0) point.sustained_us = timer_.sustained(multiply, run_.sustained_ms);
  }

  world where_;
  grouped_product product_ = [this](const grouped_gemm_problem& p, stream_ref stream) {
    grouped_gemm_problem on_sms = p;
    on_sms.rows.num_sms = options_.num_sms;
    grouped_gemm(where_, on_sms, stream);
  };
  const bench_gemm_options& options_;
  bench_report& to_;
  paced_timer timer_;
  gemm_run run_;
};

}  // namespace

int run_bench_grouped(const bench_gemm_options& o, std::ostream& out) {
  require(o);
  const std::vector<world> worlds = open_one_rank(o.device);
  const bool on_gpu = worlds[0].device() == device_kind::cuda;
  const std::vector<grouped_shape> shapes = grouped_shapes_of(o, on_gpu);
  bench_report to{o.json, o.json_path, out};
  grouped_bench bench{worlds[0], o, to};
  bool all_right = true;
  for (const grouped_shape& shape : shapes) {
    bench.begin(shape);
    for (const group_routing routing : o.grouped.routings)
      for (const int rows : rows_each(o, on_gpu))
        all_right = bench.measure(shape, rows, routing) && all_right;
  }
  to.publish();
  return static_cast<int>(all_right ? exit_code::ok : exit_code::check_failed);
}

}  // namespace baton::cli
