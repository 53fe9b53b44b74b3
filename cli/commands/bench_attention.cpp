#include "cli/commands/bench_attention.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "cli/bench/attention_point.hpp"
#include "cli/bench/attention_session.hpp"
#include "cli/bench/cublas_product.hpp"
#include "cli/bench/gemm_session.hpp"
#include "cli/bench/paced_timer.hpp"
#include "cli/bench/statistics.hpp"
#include "cli/commands/bench_decode.hpp"
#include "cli/commands/bench_report.hpp"
#include "cli/commands/product_sizes.hpp"
#include "cli/exit_code.hpp"

namespace baton::cli {
namespace {

constexpr burst_pace attention_pace{std::chrono::milliseconds{400}, 5};

attention_heads parse_heads(const std::string& word) {
  const std::vector<int> sizes = product_sizes(word);
  if (sizes.size() != 3)
    throw invalid_argument{
        fmt::format("--heads: \"{}\" is not H,K,D: heads of q, heads of k and v, values of each", word)};
  return {{}, {}, sizes[0], sizes[1], sizes[2]};
}

std::vector<attention_heads> heads_of(const bench_attention_options& o, bool on_gpu) {
  std::vector<attention_heads> all;
  for (const std::string& model : o.models)
    for (const attention_heads& layer : layers_of_model(model)) all.push_back(layer);
  for (const std::string& word : o.heads) all.push_back(parse_heads(word));
  if (!all.empty()) return all;
  if (on_gpu) return {{{}, {}, 16, 16, 512}, {{}, {}, 16, 16, 256}};
  return {{{}, {}, 4, 2, 64}};
}

std::vector<attention_mask> masks_of(const bench_attention_options& o, const attention_heads& of) {
  if (!o.masks.empty()) return o.masks;
  if (of.window > 0) return {attention_mask::window};
  return {attention_mask::dense, attention_mask::causal};
}

void require(const bench_attention_options& o) {
  require_within("--batch", o.batch, 1, 1 << 16);
  require_within("--window", o.window, 1, 1 << 24);
  require_measuring(o);
  for (const int length : o.lengths) {
    require_within("--lengths", length, 1, 1 << 20);
    require_within("--batch", o.batch, 1, (1 << 28) / length);
  }
  for (const operand_format format : o.formats)
    if (format == operand_format::e4m3) throw invalid_argument{"--format: attention is of bf16 or fp16"};
  for (const cache_format cache : o.caches)
    if (cache != cache_format::same && !o.decode)
      throw invalid_argument{
          "--cache: keys in rows are of q's type; those in pages are measured with --decode"};
}

std::vector<attention_size> sizes_of(const bench_attention_options& o, bool on_gpu) {
  std::vector<int> lengths = o.lengths;
  if (lengths.empty())
    lengths = on_gpu ? std::vector<int>{1024, 2048, 4096, 8192, 16384, 32768} : std::vector<int>{128};
  std::vector<attention_size> all;
  for (attention_heads of : heads_of(o, on_gpu)) {
    const std::vector<attention_mask> masks = masks_of(o, of);
    if (of.window == 0) of.window = o.window;
    for (const int length : lengths)
      for (const attention_mask mask : masks)
        for (const operand_format format : o.formats)
          all.push_back({of, o.batch, length, mask, format, o.num_sms});
  }
  return all;
}

/// Measures and tells.
class attention_bench {
 public:
  attention_bench(const world& where, const bench_attention_options& o, bench_report& to)
      : where_{where},
        options_{o},
        to_{to},
        timer_{where},
        run_{begin_gemm_run({&where, 1}, timer_, o.sustained_ms)} {
    measure_cublas();
    to_.table([&](std::ostream& table) { print_attention_header(run_, table); });
  }

  /// True: it was right, or there is no kernel for it.
  bool measure(const attention_size& size) {
    attention_point point{size};
    size.format == operand_format::fp16 ? measure_as<float16>(point) : measure_as<bfloat16>(point);
    to_.add(to_json(run_, point));
    to_.table([&](std::ostream& table) { print(run_, point, table); });
    return point.wrong.empty();
  }

 private:
  void measure_cublas() {
    const auto cublas = open_cublas(where_, run_.why_no_cublas);
    if (cublas == nullptr) return;
    run_.of.cublas = cublas->version();
    gemm_session<gemm_problem<bfloat16>> session{where_, {cublas_size, cublas_size, cublas_size}};
    session.random_values();
    std::vector<double> burst_us;
    time([&](stream_ref stream) { cublas->enqueue(session.problem(), stream); }, burst_us,
         run_.cublas_sustained_us);
    run_.cublas_us = median_of(burst_us);
  }

  void time(const work& run, std::vector<double>& burst_us, double& sustained_us) {
    for (int i = 0; i < options_.repeats; ++i) burst_us.push_back(timer_.burst(run, attention_pace));
    if (run_.of.sustained_ms > 0) sustained_us = timer_.sustained(run, run_.of.sustained_ms);
  }

  template <class Value>
  void measure_as(attention_point& point) {
    point.why_not = supports(where_.device(), problem_of<Value>(point.size)).why_not;
    if (!point.why_not.empty()) return;
    attention_session<Value> session{where_, point.size};
    const device_buffer<std::byte> scratch{where_,
                                           attention_scratch_bytes(where_.device(), session.problem())};
    void* const at = scratch.size() == 0 ? nullptr : const_cast<std::byte*>(scratch.data());
    const attention_work<Value> call = [&](const varlen_attention_problem<Value>& p, stream_ref stream) {
      varlen_attention(where_, p, at, stream);
    };
    point.wrong = session.first_wrong(call);
    if (!point.wrong.empty()) return;
    time([&](stream_ref stream) { session.enqueue(call, stream); }, point.burst_us, point.sustained_us);
  }

  world where_;
  const bench_attention_options& options_;
  bench_report& to_;
  paced_timer timer_;
  attention_run run_;
};

}  // namespace

int run_bench_attention(const bench_attention_options& o, std::ostream& out) {
  require(o);
  const std::vector<world> worlds = open_one_rank(o.device);
  if (o.decode)
    return run_bench_decode(o, worlds[0], heads_of(o, worlds[0].device() == device_kind::cuda), out);
  const std::vector<attention_size> sizes = sizes_of(o, worlds[0].device() == device_kind::cuda);
  bench_report to{o.json, o.json_path, out};
  attention_bench bench{worlds[0], o, to};
  bool all_right = true;
  for (const attention_size& size : sizes) all_right = bench.measure(size) && all_right;
  to.publish();
  return static_cast<int>(all_right ? exit_code::ok : exit_code::check_failed);
}

}  // namespace baton::cli
