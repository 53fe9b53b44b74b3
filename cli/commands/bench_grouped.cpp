#include "cli/commands/bench_grouped.hpp"

#include <fmt/format.h>

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

std::vector<grouped_shape> grouped_shapes_of(const bench_gemm_options& o, bool on_gpu) {
  std::vector<grouped_shape> shapes;
  const auto add = [&shapes](const moe_model& model) {
    for (grouped_shape& product : products_of(model)) shapes.push_back(std::move(product));
  };
  for (const std::string& model : o.grouped.models) add(moe_model_named(model));
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

template <class Value>
void multiply(const world& where, const grouped_problem<Value>& p, stream_ref stream) {
  grouped_gemm(where, p, stream);
}
void multiply(const world& where, const scaled_grouped_gemm_problem& p, stream_ref stream) {
  scaled_grouped_gemm(where, p, stream);
}

/// Measures and tells.
class grouped_bench {
 public:
  grouped_bench(const world& where, const bench_gemm_options& o, bench_report& to)
      : where_{where},
        options_{o},
        to_{to},
        timer_{where},
        run_{begin_gemm_run({&where, 1}, timer_, o.sustained_ms)} {
    to_.table([&](std::ostream& table) { print_limits(run_, "C = A * B^T of each group", table); });
  }

  void begin(const grouped_shape& shape, operand_format format) {
    to_.table([&](std::ostream& table) { print_heading(shape, format, table); });
  }

  /// True: it was right.
  bool measure(const grouped_shape& shape, operand_format format, int rows, group_routing routing) {
    const std::uint64_t seed = options_.grouped.seed;
    grouped_point point{.shape = shape,
                        .format = format,
                        .rows_per_group = rows,
                        .routing = routing,
                        .seed = seed,
                        .counts = group_counts(routing, shape.groups, rows, seed)};
    if (format == operand_format::bf16) measure<grouped_gemm_problem>(point);
    if (format == operand_format::fp16) measure<fp16_grouped_gemm_problem>(point);
    if (format == operand_format::e4m3) measure<scaled_grouped_gemm_problem>(point);
    const gemm_run run = limits_of(run_, format);
    to_.add(to_json(run, point));
    to_.table([&](std::ostream& table) { print(run, point, table); });
    return point.wrong.empty();
  }

 private:
  template <class Problem>
  void measure(grouped_point& point) {
    const grouped_product<Problem> product = [this](Problem p, stream_ref stream) {
      p.rows.num_sms = options_.num_sms;
      multiply(where_, p, stream);
    };
    grouped_session<Problem> session{where_, point.shape, point.counts};
    point.wrong = session.first_wrong(product);
    if (!point.wrong.empty()) return;
    session.random_values();
    const work enqueue = [&](stream_ref stream) { session.enqueue(product, stream); };
    for (int i = 0; i < options_.repeats; ++i) point.burst_us.push_back(timer_.burst(enqueue));
    if (run_.sustained_ms > 0) point.sustained_us = timer_.sustained(enqueue, run_.sustained_ms);
  }

  world where_;
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
    for (const operand_format format : o.formats) {
      bench.begin(shape, format);
      for (const group_routing routing : o.grouped.routings)
        for (const int rows : rows_each(o, on_gpu))
          all_right = bench.measure(shape, format, rows, routing) && all_right;
    }
  }
  to.publish();
  return static_cast<int>(all_right ? exit_code::ok : exit_code::check_failed);
}

}  // namespace baton::cli
