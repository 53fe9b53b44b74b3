#include "cli/commands/bench_gemm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "cli/bench/cublas_product.hpp"
#include "cli/bench/cublaslt_product.hpp"
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

/// Types of results that products of such operands have.
std::vector<std::string> outs_of(operand_format format) {
  if (format == operand_format::e4m3) return {"bf16"};
  return {name(format), "fp32"};
}

bool is_in(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// What there is to be measured: each format has its results; e4m3 has fewer tiles and one way in which b lies.
void require_dense(const bench_gemm_options& o) {
  require_measuring(o);
  const bool splits = std::any_of(o.splits.begin(), o.splits.end(), [](int of) { return of > 1; });
  const bool medium_may = o.formats == std::vector<operand_format>{operand_format::e4m3};
  for (const gemm_tiles tiles : o.tiles)
    if (splits && tiles != gemm_tiles::automatic && !(medium_may && tiles == gemm_tiles::medium))
      throw invalid_argument{fmt::format(
          "--tiles: {} ones share out no k; use --splits 1, automatic ones, or medium ones of e4m3 alone",
          name(tiles))};
  for (const operand_format format : o.formats) {
    for (const std::string& out : o.out)
      if (!is_in(outs_of(format), out))
        throw invalid_argument{fmt::format("--out: products of {} have no results of {}", name(format), out)};
    if (format != operand_format::e4m3) continue;
    for (const gemm_tiles tiles : o.tiles)
      if (tiles == gemm_tiles::wide || tiles == gemm_tiles::narrow)
        throw invalid_argument{fmt::format("--tiles: products of e4m3 have no {} ones", name(tiles))};
    if (o.b_layouts != std::vector<gemm_b_layout>{gemm_b_layout::n_by_k})
      throw invalid_argument{"--b: b of e4m3 is n_by_k"};
  }
}

/// What a problem multiplies and makes, as its type says: what is told is what was measured.
template <class Out, class In>
void say_types(gemm_point& of, const gemm_problem<Out, In>&) {
  of.format = std::is_same_v<In, float16> ? operand_format::fp16 : operand_format::bf16;
  of.out = std::is_same_v<Out, float> ? "fp32" : name(of.format);
}
void say_types(gemm_point& of, const scaled_gemm_problem&) {
  of.format = operand_format::e4m3;
  of.out = "bf16";
}

/// Measures and tells.
class gemm_bench {
 public:
  gemm_bench(const world& where, const bench_gemm_options& o, bench_report& to)
      : where_{where},
        options_{o},
        to_{to},
        timer_{where},
        run_{begin_gemm_run({&where, 1}, timer_, o.sustained_ms)} {
    const bool scaled = std::count(o.formats.begin(), o.formats.end(), operand_format::e4m3) > 0,
               others = std::count(o.formats.begin(), o.formats.end(), operand_format::e4m3) <
                        static_cast<std::ptrdiff_t>(o.formats.size());
    to_.table([&](std::ostream& table) { print_limits(run_, "C = A * B^T", table); });
    std::string why_not;
    if (others) {
      cublas_ = open_cublas(where, why_not);
      if (cublas_ == nullptr) tell_who_lacks("cuBLAS", why_not);
    }
    if (scaled) {
      cublaslt_ = open_cublaslt(where, why_not);
      if (cublaslt_ == nullptr) tell_who_lacks("cuBLASLt", why_not);
    }
    to_.table([](std::ostream& table) { print_columns(table); });
  }

  /// True: all products were right.
  bool measure(const gemm_shape& shape, operand_format format) {
    bool all_right = true;
    for (const std::string& out : options_.out.empty() ? std::vector{outs_of(format)[0]} : options_.out)
      all_right = measure(shape, format, out == "fp32") && all_right;
    return all_right;
  }

 private:
  template <class Problem>
  struct contestant {
    gemm_point point;
    product<Problem> run;
    bool is_reference;
  };
  bool measure(const gemm_shape& shape, operand_format format, bool to_fp32) {
    if (format == operand_format::e4m3) return measure_as<scaled_gemm_problem>(shape);
    if (format == operand_format::fp16)
      return to_fp32 ? measure_as<gemm_problem<float, float16>>(shape)
                     : measure_as<gemm_problem<float16, float16>>(shape);
    return to_fp32 ? measure_as<gemm_problem<float>>(shape) : measure_as<gemm_problem<bfloat16>>(shape);
  }

  template <class Problem>
  using contestants = std::vector<contestant<Problem>>;

  void tell_who_lacks(const char* who, const std::string& why) {
    to_.table([&](std::ostream& table) { table << fmt::format("no {} beside: {}\n", who, why); });
  }

  /// f(name, config): each of the tiles with each number of splits.
  template <class F>
  void each_config(F f) const {
    for (const gemm_tiles tiles : options_.tiles)
      for (const int splits : options_.splits)
        f(splits == 0 ? name(tiles) : fmt::format("{}, k/{}", name(tiles), splits),
          gemm_config{tiles, options_.num_sms, splits});
  }

  /// The reference is the last.
  template <class Out, class In>
  void add_all(contestants<gemm_problem<Out, In>>& all, gemm_point point, const gemm_problem<Out, In>&) {
    each_config([&](const std::string& who, const gemm_config& config) {
      point.who = who;
      all.push_back({point,
                     [this, config](const gemm_problem<Out, In>& p, stream_ref stream) {
                       gemm(where_, p, config, stream);
                     },
                     false});
    });
    if (cublas_ == nullptr) return;
    point.who = "cublas";
    all.push_back({point,
                   [this](const gemm_problem<Out, In>& p, stream_ref stream) { cublas_->enqueue(p, stream); },
                   true});
  }
  void add_all(contestants<scaled_gemm_problem>& all, gemm_point point, const scaled_gemm_problem& problem) {
    each_config([&](const std::string& who, const gemm_config& config) {
      point.who = who;
      all.push_back({point,
                     [this, config](const scaled_gemm_problem& p, stream_ref stream) {
                       scaled_gemm(where_, p, config, stream);
                     },
                     false});
    });
    if (cublaslt_ == nullptr) return;
    if (const std::string why = cublaslt_->why_not(problem); !why.empty())
      return tell_who_lacks("cuBLASLt", why);
    point.who = "cublaslt";
    all.push_back({point,
                   [this](const scaled_gemm_problem& p, stream_ref stream) { cublaslt_->enqueue(p, stream); },
                   true});
  }

  /// They take turns, so that a clock that drifts drifts for all of them.
  template <class Problem>
  bool measure_as(const gemm_shape& shape) {
    gemm_session<Problem> session{where_, shape};
    gemm_point point{.shape = shape};
    say_types(point, session.problem());
    contestants<Problem> all;
    add_all(all, point, session.problem());
    for (auto& c : all) c.point.wrong = session.first_wrong(c.run);
    session.random_values();
    const auto work_of = [&](const contestant<Problem>& c) {
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

  template <class Problem>
  bool tell(const contestants<Problem>& all) {
    gemm_run run = limits_of(run_, all.back().point.format);
    if (cublas_ != nullptr) run.cublas = cublas_->version();
    if (cublaslt_ != nullptr) run.cublaslt = cublaslt_->version();
    const gemm_point* reference = all.back().is_reference ? &all.back().point : nullptr;
    bool all_right = true;
    for (const auto& c : all) {
      all_right = all_right && c.point.wrong.empty();
      to_.add(to_json(run, c.point));
      to_.table([&](std::ostream& table) { print(run, c.point, reference, table); });
    }
    return all_right;
  }

  world where_;
  const bench_gemm_options& options_;
  bench_report& to_;
  paced_timer timer_;
  gemm_run run_;
  std::unique_ptr<cublas_product> cublas_;
  std::unique_ptr<cublaslt_product> cublaslt_;
};

}  // namespace

int run_bench_gemm(const bench_gemm_options& o, std::ostream& out) {
  if (o.grouped.wanted) return run_bench_grouped(o, out);
  require_dense(o);
  const std::vector<world> worlds = open_one_rank(o.device);
  const std::vector<gemm_shape> shapes = shapes_of(o, worlds[0].device() == device_kind::cuda);
  bench_report to{o.json, o.json_path, out};
  gemm_bench bench{worlds[0], o, to};
  bool all_right = true;
  for (gemm_shape shape : shapes)
    for (const gemm_b_layout layout : o.b_layouts) {
      shape.b_layout = layout;
      for (const operand_format format : o.formats) all_right = bench.measure(shape, format) && all_right;
    }
  to.publish();
  return static_cast<int>(all_right ? exit_code::ok : exit_code::check_failed);
}

}  // namespace baton::cli
