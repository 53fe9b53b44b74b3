#include "cli/commands/bench_gemm.hpp"

#include <fmt/format.h>

#include "cli/bench/cublas_product.hpp"
#include "cli/bench/gemm_point.hpp"
#include "cli/bench/paced_timer.hpp"
#include "cli/commands/bench_grouped.hpp"
#include "cli/commands/bench_report.hpp"
#include "cli/commands/product_sizes.hpp"
#include "cli/exit_code.hpp"

namespace baton::cli {
namespace {

/// "M,N,K" or "N".
gemm_shape parse_shape(const std::string& word) {
  const std::vector<int> sizes = product_sizes(word);
  if (sizes.size() == 1) return {sizes[0], sizes[0], sizes[0]};
  if (sizes.size() == 3) return {sizes[0], sizes[1], sizes[2]};
  throw invalid_argument{
      fmt::format("--shapes: \"{}\" is not M,N,K or one size, each from 1 to {}", word, largest_size)};
}

std::vector<gemm_shape> shapes_of(const bench_gemm_options& o, bool on_gpu) {
  std::vector<gemm_shape> shapes;
  for (const std::string& word : o.shapes) shapes.push_back(parse_shape(word));
  if (!shapes.empty()) return shapes;
  if (!on_gpu) return {{128, 128, 128}};
  return {{8192, 8192, 8192},  {4096, 4096, 4096},  {2048, 2048, 2048}, {1024, 1024, 1024},
          {16384, 4096, 4096}, {4096, 14336, 4096}, {4096, 4096, 14336}};
}

/// Measures and tells.
class gemm_bench {
 public:
  gemm_bench(const world& where, const bench_gemm_options& o, bench_report& to)
      : where_{where},
        options_{o},
        to_{to},
        timer_{where},
        run_{begin_gemm_run(where, timer_, o.sustained_ms)} {
    reference_ = open_cublas(where, run_.why_no_cublas);
    if (reference_ != nullptr) run_.cublas = reference_->version();
    to_.table([&](std::ostream& table) { print_header(run_, table); });
  }

  /// True: all products were right.
  bool measure(const gemm_shape& shape) {
    bool all_right = true;
    for (const std::string& out : options_.out)
      all_right =
          (out == "fp32" ? measure_as<float>(shape, out) : measure_as<bfloat16>(shape, out)) && all_right;
    return all_right;
  }

 private:
  template <class Out>
  struct contestant {
    gemm_point point;
    product<Out> run;
  };

  template <class Out>
  std::vector<contestant<Out>> contestants(const gemm_shape& shape, const std::string& out) {
    std::vector<contestant<Out>> all;
    const auto add = [&](const char* who, product<Out> run) {
      all.push_back({{shape, out, who, {}, {}}, std::move(run)});
    };
    for (const gemm_tiles tiles : options_.tiles) {
      add(name(tiles), [this, tiles](const gemm_problem<Out>& p, stream_ref stream) {
        gemm(where_, p, {tiles, options_.num_sms}, stream);
      });
    }
    if (reference_ != nullptr)
      add("cublas",
          [this](const gemm_problem<Out>& p, stream_ref stream) { reference_->enqueue(p, stream); });
    return all;
  }

  /// They take turns, so that a clock that drifts drifts for all of them.
  template <class Out>
  bool measure_as(const gemm_shape& shape, const std::string& out) {
    gemm_session<Out> session{where_, shape};
    std::vector<contestant<Out>> all = contestants<Out>(shape, out);
    for (auto& c : all) c.point.wrong = session.first_wrong(c.run);
    session.random_values();
    const auto work_of = [&](const contestant<Out>& c) {
      return [&session, &c](stream_ref stream) { session.enqueue(c.run, stream); };
    };
    for (int i = 0; i < options_.repeats; ++i)
      for (auto& c : all)
        if (c.point.wrong.empty()) c.point.burst_us.push_back(timer_.burst(work_of(c)));
    for (auto& c : all)
      if (run_.sustained_ms > 0 && c.point.wrong.empty())
        c.point.sustained_us = timer_.sustained(work_of(c), run_.sustained_ms);
    return tell(all);
  }

  template <class Out>
  bool tell(const std::vector<contestant<Out>>& all) {
    const gemm_point* reference = reference_ != nullptr ? &all.back().point : nullptr;
    bool all_right = true;
    for (const auto& c : all) {
      all_right = all_right && c.point.wrong.empty();
      to_.add(to_json(run_, c.point));
      to_.table([&](std::ostream& table) { print(run_, c.point, reference, table); });
    }
    return all_right;
  }

  world where_;
  const bench_gemm_options& options_;
  bench_report& to_;
  paced_timer timer_;
  gemm_run run_;
  std::unique_ptr<cublas_product> reference_;
};

}  // namespace

int run_bench_gemm(const bench_gemm_options& o, std::ostream& out) {
  if (o.grouped.wanted) return run_bench_grouped(o, out);
  require_measuring(o);
  const std::vector<world> worlds = open_one_rank(o.device);
  const std::vector<gemm_shape> shapes = shapes_of(o, worlds[0].device() == device_kind::cuda);
  bench_report to{o.json, o.json_path, out};
  gemm_bench bench{worlds[0], o, to};
  bool all_right = true;
  for (const gemm_shape& shape : shapes) all_right = bench.measure(shape) && all_right;
  to.publish();
  return static_cast<int>(all_right ? exit_code::ok : exit_code::check_failed);
}

}  // namespace baton::cli
