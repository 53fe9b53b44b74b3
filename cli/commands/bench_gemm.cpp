#include "cli/commands/bench_gemm.hpp"

#include <fmt/format.h>

#include <charconv>
#include <system_error>

#include "cli/bench/cublas_product.hpp"
#include "cli/bench/gemm_point.hpp"
#include "cli/bench/gpu_facts.hpp"
#include "cli/bench/paced_timer.hpp"
#include "cli/bench/statistics.hpp"
#include "cli/bench/tensor_rate/tensor_rate.hpp"
#include "cli/commands/bench_report.hpp"
#include "cli/exit_code.hpp"

namespace baton::cli {
namespace {

void require(const bench_gemm_options& o) {
  const auto within = [](const char* what, int value, int least, int most) {
    if (value < least || value > most)
      throw invalid_argument{fmt::format("{}: {} is not from {} to {}", what, value, least, most)};
  };
  within("--repeats", o.repeats, 1, 1 << 20);
  within("--sustained-ms", o.sustained_ms, 0, 60'000);
  within("--sms", o.num_sms, 0, 1 << 16);
}

/// "M,N,K" or "N".
gemm_shape parse_shape(const std::string& word) {
  constexpr int most = 65536;
  std::vector<int> sizes;
  const char *at = word.data(), *end = at + word.size();
  bool more = true;
  while (more) {
    int value = 0;
    const auto [rest, failed] = std::from_chars(at, end, value);
    if (failed != std::errc{} || value < 1 || value > most) break;
    sizes.push_back(value);
    more = rest != end && *rest == ',';
    at = more ? rest + 1 : rest;
  }
  if (more || at != end || (sizes.size() != 1 && sizes.size() != 3))
    throw invalid_argument{
        fmt::format("--shapes: \"{}\" is not M,N,K or one size, each from 1 to {}", word, most)};
  return sizes.size() == 1 ? gemm_shape{sizes[0], sizes[0], sizes[0]}
                           : gemm_shape{sizes[0], sizes[1], sizes[2]};
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
      : where_{where}, options_{o}, to_{to}, on_gpu_{where.device() == device_kind::cuda}, timer_{where} {
    const std::vector<world> worlds{where};
    run_.device = on_gpu_ ? "cuda" : "cpu";
    run_.date = utc_now();
    if (const std::optional<measured_gpus> gpu = facts_of(worlds)) {
      run_.gpu = gpu->name;
      run_.driver = gpu->driver;
    }
    reference_ = open_cublas(where, run_.why_no_cublas);
    if (reference_ != nullptr) run_.cublas = reference_->version();
    if (on_gpu_) measure_limits();
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

  void measure_limits() {
    const tensor_rate::session tensor_cores{where_};
    const work multiply = [&](stream_ref stream) { tensor_cores.enqueue(stream); };
    run_.tensor_flops_per_us = tensor_cores.flops() / timer_.burst(multiply);
    if (options_.sustained_ms > 0)
      run_.sustained_tensor_flops_per_us =
          tensor_cores.flops() / timer_.sustained(multiply, options_.sustained_ms);
    constexpr std::size_t bytes = 256 << 20;  // more than the L2 holds
    device_buffer<std::byte> from{where_, bytes}, to{where_, bytes};
    const work copy = [&](stream_ref stream) { copy_async(where_, to.data(), from.data(), bytes, stream); };
    run_.copied_bytes_per_us = 2.0 * bytes / timer_.burst(copy);
  }

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
      if (on_gpu_ && options_.sustained_ms > 0 && c.point.wrong.empty())
        c.point.sustained_us = timer_.sustained(work_of(c), options_.sustained_ms);
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
  bool on_gpu_;
  paced_timer timer_;
  gemm_run run_;
  std::unique_ptr<cublas_product> reference_;
};

}  // namespace

int run_bench_gemm(const bench_gemm_options& o, std::ostream& out) {
  require(o);
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
